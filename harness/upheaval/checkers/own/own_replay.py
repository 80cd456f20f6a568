"""Whether the state of a user's service is what its log gives, and whether its snapshot is all of its state.

The service's code runs in a process of its own, `replay_process`, under other conditions than members have. Where it
cannot be run, or was changed since the run, nothing is found out, and why.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.own.causes import CONDITIONS, EXTERNAL, Cause
from upheaval.checkers.own.interpreters import TIMEOUT_S, Interpreters, shared_interpreters
from upheaval.checkers.own.replay_judgement import BUDGET_S
from upheaval.checkers.own.replay_process import MODULE, Order, Task, encode_state
from upheaval.errors import HarnessError, UsageError
from upheaval.records import OWN_SYSTEM, Manifest, RunFolder, read_origin, source_digest

_WALL_OF_BUDGET: Final = 9
"""A replay may take so much longer than its budget: the machine may do other things meanwhile."""
COMPARED: Final = 16
"""States of two replays that are compared, evenly over the log: by the end two may have come to the same one again."""


BUDGET_VARIABLE: Final = "UPHEAVAL_REPLAY_SECONDS"
"""The environment variable that sets another budget than `BUDGET_S`."""
_SERVICE: Final = "service"
"""The component of a member."""


class CannotReplay(HarnessError):
    """The code of the service does not run in a process of its own, and why."""


@dataclass(frozen=True, slots=True)
class OwnReplay:
    """State hashes by position, and what an instance that began with a snapshot does otherwise."""

    hashes: Mapping[int, str] = field(default_factory=dict)
    forms: Mapping[str, str] = field(default_factory=dict)
    """The hashes of canonical forms by those of states; of a state that is not in it, the state is its form."""
    form_error: str = ""
    """What its canonical form raised; then states are compared as they are."""
    difference: str = ""
    position: int = -1
    """Of the snapshot that the instance began with."""
    unsteady: str = ""
    """What two replays offer to the log or schedule otherwise; empty when they do the same."""
    unsteady_position: int = -1
    answers: str = ""
    """What two replays answer otherwise; then answers after a snapshot are not compared."""
    unasked: str = ""
    """What of the service's messages and timers the log does not have as a replay asks for it."""
    unasked_position: int = -1
    compared: int = 0
    chosen: int = 0
    """Of the places at which a snapshot was to be tried, `compared` were."""
    why_cut: str = ""
    """Why not all, where it was not for a difference."""
    order: Order | None = None
    """What was replayed, and under which conditions; None when nothing was."""
    parted: int = -1
    """The position of the first entry seen after which a replay without changes is in another state; -1 without one."""
    why_not_parted: str = ""
    """Why that was not looked at; empty when it was."""
    why_usual: str = ""
    """Why it had the usual environment and directory; empty when it had others."""
    why_not: str = ""
    """Why nothing was found out; empty when it was."""

    def form(self, state: str) -> str:
        """The hash of what is compared, of a state with that hash."""
        return self.forms.get(state, state)

    @property
    def changed(self) -> tuple[Cause, ...]:
        """What the replay had otherwise than members."""
        return () if self.order is None else self.order.changed


def replay_own(
    run: RunFolder, manifest: Manifest, log_member: int, log_end: int, states: Iterable[Sequence[bytes]]
) -> OwnReplay:
    """Of a service of a user's own; raises nothing that its code is to blame for. `states` are those of members.

    Raises `UsageError` for a budget in the environment that is none.
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
        is_timed=is_timed(run),
        budget_s=replay_budget_s(os.environ),
    )
    with shared_interpreters() as interpreters:
        try:
            return _judge(interpreters, order, states)
        except CannotReplay as error:
            why_usual = str(error)
        try:
            usual = tuple(each for each in CONDITIONS if each not in EXTERNAL)
            return replace(_judge(interpreters, replace(order, changed=usual), states), why_usual=why_usual)
        except CannotReplay as error:
            return OwnReplay(why_not=str(error))


def _judge(interpreters: Interpreters, order: Order, states: Iterable[Sequence[bytes]]) -> OwnReplay:
    answer = ask(interpreters, order, timeout_s=max(TIMEOUT_S, _WALL_OF_BUDGET * order.budget_s))
    hashes = {int(position): each for position, each in answer["hashes"].items()}
    forms = answer["forms"]
    if answer["has_form"]:
        forms |= ask(interpreters, replace(order, task=Task.FORMS), {tuple(state) for state in states})["forms"]
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


def replay_budget_s(environment: Mapping[str, str]) -> float:
    """In seconds of a processor. Raises `UsageError` for a variable that is no positive number."""
    text = environment.get(BUDGET_VARIABLE) or str(BUDGET_S)
    with suppress(ValueError):
        seconds = float(text)
        if 0 < seconds < math.inf:
            return seconds
    raise UsageError(f"{BUDGET_VARIABLE}: expected a positive number of seconds, got {text!r}")


def ask(
    interpreters: Interpreters, order: Order, states: Iterable[Sequence[bytes]] = (), timeout_s: float = TIMEOUT_S
) -> dict[str, Any]:
    """What the process tells. Raises `CannotReplay`."""
    given = {**asdict(order), "states": [encode_state(state) for state in states]}
    answer = interpreters.ask(MODULE, given, order.changed, timeout_s)
    if isinstance(answer, str):
        raise CannotReplay(answer)
    return answer


def is_timed(run: RunFolder) -> bool:
    """Whether what services ask for comes in time: no fault hit the service of a member alone."""
    return all(fault.component != _SERVICE for fault in run.read_faults())


def why_no_service(run: RunFolder, manifest: Manifest) -> str:
    """Why the service cannot be made to read its log here; empty when it can."""
    if manifest.system != OWN_SYSTEM:
        return "its code is not Python"
    if not manifest.source or not Path(manifest.source).is_dir():
        return "its code is not at hand"
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
