"""Whether the state of a user's service is what its log gives, and whether its snapshot holds all of its state.

The service's code runs in a separate process, `replay_process`, under other conditions than members have. If it cannot
run or has changed since the run, the result has only the reason.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.own.causes import CONDITIONS, EXTERNAL, Cause
from upheaval.checkers.own.interpreters import TIMEOUT_S, Interpreters, shared_interpreters
from upheaval.checkers.own.replay_judgement import BUDGET_S
from upheaval.checkers.own.replay_process import MODULE, Order, Task, encode_state
from upheaval.checkers.states.member_state import MemberState
from upheaval.errors import EnvironmentFault, HarnessError
from upheaval.records import OWN_SYSTEM, Manifest, RunFolder, read_origin, source_digest
from upheaval_chaos.host_faults import LONGEST_JUMP_MS, HostFaultKind
from upheaval_node.types import MS, NEVER_NS

_WALL_OF_BUDGET: Final = 9
"""The factor by which wall time may exceed the processor budget, because the machine may be busy."""
COMPARED: Final = 16
"""The number of states of two replays that are compared, spread evenly: states that differ may be equal again at the
end.
"""


_BATCH_LENGTH: Final = 8 << 20
"""The bytes of states in one question for their forms."""
BUDGET_VARIABLE: Final = "UPHEAVAL_REPLAY_SECONDS"
"""The environment variable that overrides `BUDGET_S`."""
_SERVICE: Final = "service"
"""The component name of a member's service."""


class CannotReplay(HarnessError):
    """The service's code does not run in a separate process. The message says why."""


@dataclass(frozen=True, slots=True)
class OwnReplay:
    """State hashes by position, and how a copy that started from a snapshot differs."""

    hashes: Mapping[int, str] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)
    """Hashes of canonical forms by state hash. A state that is missing here is its own form."""
    form_error: str = ""
    """The exception of the canonical form. States are then compared as they are."""
    difference: str = ""
    position: int = -1
    """The position of the snapshot that the copy started from."""
    unsteady: str = ""
    """How two replays differ in what they offer or schedule; empty if they do not."""
    unsteady_position: int = -1
    answers: str = ""
    """How the answers of two replays differ. Answers after a snapshot are then not compared."""
    unasked: str = ""
    """How the log differs from the messages and timers that a replay requests."""
    unasked_position: int = -1
    compared: int = 0
    chosen: int = 0
    """The number of places chosen to start from a snapshot. `compared` of them were compared."""
    why_cut: str = ""
    """Why not all places were compared; empty if a difference was the reason."""
    order: Order | None = None
    """What was replayed, under which conditions; None if nothing was."""
    parted: int = -1
    """The position of the first sample at which a replay without changes has a different state; -1 if there is none."""
    why_not_parted: str = ""
    """Why the samples were not compared; empty if they were."""
    why_usual: str = ""
    """Why the replay had the usual environment and directory; empty if it had changed ones."""
    why_not: str = ""
    """Why there is no result; empty if there is one."""

    def form(self, state: str) -> str:
        """The hash of the canonical form of a state with that hash."""
        return self.forms.get(state, state)

    @property
    def changed(self) -> tuple[Cause, ...]:
        """The conditions in which the replay differed from members."""
        return () if self.order is None else self.order.changed


def replay_own(
    run: RunFolder, manifest: Manifest, log_member: int, log_end: int, states: Sequence[MemberState]
) -> OwnReplay:
    """Replay a user's service. `states` are those of members. Failures of the user's code are part of the result.

    Raises `EnvironmentFault` for an invalid budget in the environment.
    """
    why_not = why_no_service(run, manifest)
    if why_not:
        return OwnReplay(why_not=why_not)
    source, folder = Path(manifest.source).absolute(), run.path.absolute()
    others = bool(manifest.more_services)
    order = Order(
        manifest.service,
        str(source),
        str(folder),
        log_member,
        log_end,
        CONDITIONS,
        count=COMPARED,
        has_other_services=others,
        untimed_ms=untimed_ms(run, manifest.members),
        budget_s=replay_budget_s(os.environ),
    )
    with shared_interpreters() as interpreters:
        try:
            return _judge(interpreters, order, states)
        except CannotReplay as error:
            why_usual = str(error)
        try:
            usual = tuple(condition for condition in CONDITIONS if condition not in EXTERNAL)
            return replace(_judge(interpreters, replace(order, changed=usual), states), why_usual=why_usual)
        except CannotReplay as error:
            return OwnReplay(why_not=str(error))


def _judge(interpreters: Interpreters, order: Order, states: Sequence[MemberState]) -> OwnReplay:
    answer = ask(interpreters, order, timeout_s=max(TIMEOUT_S, _WALL_OF_BUDGET * order.budget_s))
    hashes = {int(position): digest for position, digest in answer["hashes"].items()}
    forms = answer["forms"]
    if answer["has_form"]:
        for batch in _in_batches(states):
            forms |= ask(interpreters, replace(order, task=Task.FORMS), batch)["forms"]
    names = ("form_error", "difference", "position", "unsteady", "unsteady_position", "answers", "unasked", "why_cut")
    values = {name: answer[name] for name in (*names, "unasked_position", "compared", "chosen")}
    replayed = OwnReplay(hashes, forms, order=replace(order, has_form=answer["has_form"]), **values)
    if replayed.difference:
        return replayed
    try:
        other = ask(interpreters, replace(replayed.order or order, task=Task.SAMPLES, changed=()))
    except CannotReplay as error:
        return replace(replayed, why_not_parted=str(error))
    differing = (index for index, state in answer["samples"].items() if state != other["samples"][index])
    return replace(replayed, parted=min((other["positions"][index] for index in differing), default=-1))


def _in_batches(states: Iterable[MemberState]) -> Iterator[list[Sequence[bytes]]]:
    """Different states, some MiB at a time: all of them may be too large for the memory."""
    batch: list[Sequence[bytes]] = []
    for snapshot in {snapshot.hash: snapshot for snapshot in states}.values():
        batch.append(snapshot.state)
        if sum(sum(map(len, state)) for state in batch) >= _BATCH_LENGTH:
            yield batch
            batch = []
    if batch:
        yield batch


def replay_budget_s(environment: Mapping[str, str]) -> float:
    """The budget in seconds of processor time. Raises `EnvironmentFault` if the variable is no positive number."""
    text = environment.get(BUDGET_VARIABLE) or str(BUDGET_S)
    with suppress(ValueError):
        seconds = float(text)
        if 0 < seconds < math.inf:
            return seconds
    raise EnvironmentFault(f"{BUDGET_VARIABLE}: expected a positive number of seconds, got {text!r}")


def ask(
    interpreters: Interpreters, order: Order, states: Iterable[Sequence[bytes]] = (), timeout_s: float = TIMEOUT_S
) -> dict[str, Any]:
    """Ask the replay process. Raises `CannotReplay`."""
    given = {**asdict(order), "states": [encode_state(state) for state in states]}
    answer = interpreters.ask(MODULE, given, order.changed, timeout_s, order.hash_seed)
    if isinstance(answer, str):
        raise CannotReplay(answer)
    return answer


def untimed_ms(run: RunFolder, members: int) -> tuple[tuple[int, int], ...]:
    """When the requests of services may have been late, by the wall clocks of members.

    That is while a fault hit only the service of a member, and as long again, in which it catches up with the log.
    """
    faults = list(run.read_faults())
    stopped = [fault for fault in faults if fault.component == _SERVICE]
    if not stopped:
        return ()
    lead_ms = set(_leads_ms(run, members))
    if not lead_ms:
        return ((0, NEVER_NS),)
    jump_ms = LONGEST_JUMP_MS if any(fault.what == HostFaultKind.CLOCK_JUMP for fault in faults) else 0
    times = []
    for fault in stopped:
        begin_ns = fault.inject_begin_ns
        end_ns = NEVER_NS if fault.heal_end_ns is None else 2 * fault.heal_end_ns - begin_ns
        times.append((begin_ns // MS + min(lead_ms) - jump_ms, end_ns // MS + max(lead_ms) + jump_ms))
    return tuple(times)


def _leads_ms(run: RunFolder, members: int) -> Iterator[int]:
    """How far the members' wall clocks were ahead of the monotonic one."""
    for member in map(run.member, range(members)):
        for event in member.traced():
            epoch_ms = event.fields.get("epoch_ms")
            if isinstance(epoch_ms, int):
                yield epoch_ms - event.ns // MS


def why_no_service(run: RunFolder, manifest: Manifest) -> str:
    """Why the service cannot replay its log here; empty if it can."""
    if manifest.system != OWN_SYSTEM:
        return "its code is not Python"
    if not manifest.source or not Path(manifest.source).is_dir():
        return "its code is missing"
    if read_origin(run.path) is not None:
        return "the log goes on from a state that it does not have"
    digest = source_digest(manifest.source, manifest.service)
    if not digest and not manifest.source_digest:
        module = manifest.service.partition(":")[0]
        return f"the folder {manifest.source} has no module {module}: name the one that has it as source"
    if not manifest.source_digest:
        return "the manifest has no digest of its code"
    if digest != manifest.source_digest:
        return "its code was changed since the run"
    return ""
