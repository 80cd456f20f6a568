"""Faults that a user injects by hand, as statements of a scenario, and the scenario that repeats them.

The language of scenarios is the only one for faults by hand: it rejects what it does not know, and what was done can be
run again.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from upheaval.errors import UsageError
from upheaval.records import OWN_SYSTEM, Manifest, RunFolder
from upheaval.report import LEADER, member_spans
from upheaval.scenario.recorded import repeatable
from upheaval.scenario.statements import ScenarioError
from upheaval.scenario.text import parse_scenario
from upheaval.scenario.values import Inject, Scenario
from upheaval.system import ClusterSpec
from upheaval.workload import SERVICES, WORKBENCH_SERVICE
from upheaval_chaos.faults import Fault, MemberFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_node.cluster.rules import OWN
from upheaval_node.types import MS, S

OPERATIONS_BETWEEN: Final = 50
"""How many operations are acknowledged before the first event and after the last one."""
QUIET_MAX_S: Final = 10
"""The longest wait without any fault, in seconds: the user only looked at the cluster meanwhile."""
_WHERE: Final = "fault"
_NEVER_NS: Final = 1 << 63
_ENDS_LEADERSHIP: Final = (MemberFaultKind.KILL, MemberFaultKind.STOP, MemberFaultKind.PAUSE)


def fault_in(statement: str, spec: ClusterSpec) -> Fault:
    """The fault of a statement such as `kill leader` or `slow member-0 <-> member-1 latency-ms=200`.

    Raises `UsageError` that names the problem.
    """
    lines = ["title by hand", _cluster_line(spec.members, spec.components), "wait operations 1"]
    if len(statement.splitlines()) != 1:
        raise UsageError("expected one statement, such as `kill leader`")
    text = "\n".join([*lines, f"inject {_WHERE} {statement}"])
    try:
        scenario = parse_scenario(text, name="by-hand", where="by hand")
    except ScenarioError as error:
        raise UsageError(f"{statement!r}: {error.message}") from error
    return next(step.fault for step in scenario.steps if isinstance(step, Inject))


def scenario_by_hand(run: RunFolder) -> Scenario:
    """What was done to the cluster of a run so far, as a scenario that waits for its effects.

    A member that led when it was hit becomes `leader`, because another run may have another leader. Raises `UsageError`
    when nothing was done.
    """
    manifest = run.read_manifest()
    events = sorted(_events(run, manifest))
    if not events:
        raise UsageError("nothing was done to this cluster: no scenario to save")
    text = "\n".join(
        [
            f"title What was done by hand to {run.path.name}",
            " ".join([_cluster_line(manifest.members, manifest.components), *_cluster_options(manifest)]),
            f"wait operations {OPERATIONS_BETWEEN}",
            *_steps(events),
            f"wait operations {OPERATIONS_BETWEEN}",
            "",
        ]
    )
    return parse_scenario(text, name=f"{run.path.name}-by-hand", where="the scenario of what was done by hand")


def require_shipped(manifest: Manifest) -> None:
    """Raise `UsageError` unless a simulated run of the scenario has the system and service of the run."""
    for what, name, shipped in (
        ("members", manifest.system, manifest.system == OWN_SYSTEM),
        ("users", manifest.service, manifest.service in ("", *SERVICES)),
    ):
        if not shipped:
            raise UsageError(f"the simulation has no {what} of {name}: save the scenario without running it")


class _Event(NamedTuple):
    ns: int
    order: int
    lines: tuple[str, ...]
    opens: int = 0
    """By how much the event changes the number of active faults."""


def _steps(events: Iterable[_Event]) -> list[str]:
    """The statements, with waits of the original length in seconds; without any fault, at most `QUIET_MAX_S`."""
    steps: list[str] = []
    last_ns: int | None = None
    open_count = 0
    for event in events:
        seconds = 0 if last_ns is None or event.ns == _NEVER_NS else round((event.ns - last_ns) / S)
        seconds = seconds if open_count else min(seconds, QUIET_MAX_S)
        steps += [f"wait seconds {seconds}"] if seconds else []
        steps += event.lines
        open_count += event.opens
        last_ns = event.ns
    return steps


def _events(run: RunFolder, manifest: Manifest) -> list[_Event]:
    leads, faults = Leaders(run, manifest), list(run.read_faults())
    events = []
    for number, fault in enumerate(faults, start=1):
        name, led = f"{fault.what}-{number}", leads.at(fault.inject_begin_ns)
        is_alone = not any(_overlaps(other, fault) for other in faults if other is not fault)
        ends_leadership = fault.what in _ENDS_LEADERSHIP and led in fault.members
        after = (f"wait leader other-than {name}",) if ends_leadership else ()
        statement = _by_role(fault, led, is_alone=is_alone)
        events.append(_Event(fault.inject_begin_ns, number, (f"inject {name} {statement}", *after), 1))
        is_of_members = fault.what in list(MemberFaultKind)
        healing = (f"heal {name}", f"wait caught-up {name}") if is_of_members else (f"heal {name}",)
        # A fault that is still active is healed last.
        events.append(_Event(_NEVER_NS if fault.heal_begin_ns is None else fault.heal_begin_ns, number, healing, -1))
    # A command without proof would not take effect in another run either.
    controls = repeatable(run, proved_only=True)
    return [*events, *(_Event(control.begin_ns, 0, (control.what,)) for control in controls)]


def _overlaps(other: FaultRecord, fault: FaultRecord) -> bool:
    """Whether `other` was active when `fault` was injected."""
    end_ns = _NEVER_NS if other.heal_end_ns is None else other.heal_end_ns
    return other.inject_begin_ns <= fault.inject_begin_ns < end_ns


def _by_role(fault: FaultRecord, leader: int | None, *, is_alone: bool) -> str:
    """The statement with roles of members instead of ids, as far as the roles name the same members."""
    if not fault.statement:
        raise UsageError(f"{fault.what} of {fault.where} has no statement: another program did it")
    led = f"member-{leader}"
    words = fault.statement.split(" ")
    others = {word for word in words if word.startswith("member-") and word != led}
    roles = {led: "leader"}
    if leader is not None and len(others) == 1 and "," not in fault.statement and (is_alone or led in words):
        roles[others.pop()] = "follower"
    return " ".join(roles.get(word, word) for word in words)


class Leaders:
    """Who led when, by the traces of the members; knows no leaders of a system without traces."""

    def __init__(self, run: RunFolder, manifest: Manifest) -> None:
        self._spans = {}
        for member_id in range(manifest.members):
            events = list(run.member(member_id).traced())
            last_ns = max((event.ns for event in events), default=0)
            self._spans[member_id] = [s for s in member_spans(events, 0, last_ns + 1) if s.state == LEADER]

    def at(self, ns: int) -> int | None:
        """The member that led at that moment, or the last one before it; None without any."""
        begun = [(s.begin, member_id) for member_id, spans in self._spans.items() for s in spans if s.begin <= ns]
        return max(begun, default=(0, None))[1]


def _cluster_line(members: int, components: str) -> str:
    return f"cluster members={members} components={components}"


def _cluster_options(manifest: Manifest) -> list[str]:
    service = manifest.service if manifest.service in SERVICES else WORKBENCH_SERVICE
    options = {
        "sync-level": manifest.sync_level,
        "service": service,
        "beside": ",".join(manifest.more_services),
        "compatibility": "" if manifest.compatibility == OWN else manifest.compatibility,
    }
    times = {"leader-disconnect-ms": "leader_disconnect_ns", "session-timeout-ms": "session_ns"}
    chosen = {name: manifest.timeouts.get(key) for name, key in times.items()}
    options |= {name: ns // MS for name, ns in chosen.items() if isinstance(ns, int)}
    return [f"{name}={value}" for name, value in options.items() if value != ""]
