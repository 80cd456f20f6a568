"""When faults and admin commands may have delayed members, and how long a cluster may take by its time-outs.

Facts and bounds; this module knows no promise.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from upheaval.checkers.evidence.protocol_events import OF_MODULE
from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts
from upheaval.errors import UsageError
from upheaval.records import AdminCommand, Manifest, RunFolder
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.record import FaultRecord
from upheaval_node.errors import UsageError as NodeUsageError
from upheaval_node.member_config import apply_overrides
from upheaval_node.settings import ClusterTimeouts, profile_settings
from upheaval_node.types import MS, NEVER_NS, S

BALLOTS: Final = 4
"""How many ballots an election may take: two members may ask for votes at the same time, and again."""

MARGIN_NS: Final = S
"""Added for what has no time-out of its own: messages, files, the log of the new term."""

AROUND_NS: Final = 500 * MS
"""How far injectors and members may differ: a signal takes time, and a line is stamped before it is written."""

AT_ONCE: Final = frozenset({MemberFaultKind.KILL, HostFaultKind.POWER_CUT, *FileFaultKind})
"""The kinds whose injection ends processes at once."""

STARTED: Final = frozenset({*AT_ONCE, MemberFaultKind.STOP})
"""The kinds whose heal starts the processes that they ended."""

CUT_SHORT: Final = 8
"""The exit status of a process whose orderly end took too long (docs/operations.md)."""

_HARMLESS: Final = frozenset(
    {AdminCommand.SNAPSHOT, AdminCommand.STANDBY_SNAPSHOT, AdminCommand.REPLICATE_STANDBY_SNAPSHOT}
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """An interval in which the named members had a fault, or, with none named, all members may have been affected."""

    begin_ns: int
    end_ns: int
    members: tuple[int, ...] = ()

    def is_within(self, begin_ns: int, end_ns: int) -> bool:
        """Whether it overlaps an interval."""
        return self.begin_ns <= end_ns and begin_ns <= self.end_ns

    def hits(self, member_id: int, begin_ns: int, end_ns: int) -> bool:
        """Whether it affected a member in an interval."""
        return self.is_within(begin_ns, end_ns) and (not self.members or member_id in self.members)


def timeouts_of(manifest: Manifest) -> ClusterTimeouts:
    """The members' configured time-outs. Raises `UsageError` for values that no member can have."""
    of_profile = profile_settings(manifest.profile).cluster.timeouts
    try:
        return apply_overrides(of_profile, manifest.timeouts, "timeouts")
    except NodeUsageError as error:
        raise UsageError(f"the manifest: {error}") from None


def failover_ns(timeouts: ClusterTimeouts) -> int:
    """How long a quorum that is well may take from the last word of a leader to the next leader."""
    # Each ballot begins after a random delay of half its own time-out.
    return timeouts.leader_heartbeat_ns + BALLOTS * timeouts.election_ns * 3 // 2 + MARGIN_NS


def troubles(run: RunFolder, traces: Sequence[TraceFacts]) -> Iterator[Trouble]:
    """All faults and commands of the run."""
    yield from fault_troubles(run.read_faults(), traces)
    for control in run.read_controls():
        if control.what not in _HARMLESS:
            yield Trouble(control.begin_ns, control.end_ns)


def fault_troubles(faults: Iterable[FaultRecord], traces: Sequence[TraceFacts]) -> Iterator[Trouble]:
    """The faults, each from its injection to its heal. Either may take long, and the injector alone records how long:
    a member that was ended is in trouble no longer than its trace shows.
    """
    by_member = {facts.member_id: facts for facts in traces}
    last_ns = max((life.last_ns for facts in traces for life in facts.lives), default=0)
    for fault in faults:
        end_ns = NEVER_NS if fault.heal_end_ns is None else fault.heal_end_ns
        is_of_processes = fault.what in STARTED
        if not is_of_processes or not fault.members:
            yield Trouble(fault.inject_begin_ns, end_ns, fault.members)
        for member_id in fault.members if is_of_processes else ():
            lives = lives_hit(fault, by_member[member_id]) if member_id in by_member else []
            yield Trouble(_shown_begin(fault, lives), _shown_end(fault, end_ns, lives, last_ns), (member_id,))


def lives_hit(fault: FaultRecord, facts: TraceFacts) -> list[ProcessLife]:
    """The processes of the member that the fault concerns, whenever they ran."""
    # A fault calls all services of a member `service`; their processes have numbers.
    return [life for life in facts.lives if fault.component in (None, life.component, life.component.partition("-")[0])]


def _shown_begin(fault: FaultRecord, lives: Iterable[ProcessLife]) -> int:
    """Shortly before the first of the processes fell silent. One that ends in order may be in trouble before."""
    if fault.what not in AT_ONCE:
        return fault.inject_begin_ns
    ended = {life.component: life.last_ns for life in lives if life.begin_ns < fault.inject_end_ns}
    return max(fault.inject_begin_ns, min(fault.inject_end_ns, min(ended.values(), default=0) - AROUND_NS))


def _shown_end(fault: FaultRecord, end_ns: int, lives: Iterable[ProcessLife], last_ns: int) -> int:
    """Shortly after the next consensus module reached its election and all else was started, if it went on until
    `end_ns`, or until the last line of all traces.
    """
    begun = [life for life in lives if fault.inject_end_ns <= life.begin_ns <= end_ns]
    module = next((life for life in begun if life.component in OF_MODULE), None)
    if end_ns == NEVER_NS or module is None or module.started_ns is None:
        return end_ns
    if module.last_ns + AROUND_NS < min(end_ns, last_ns):
        return end_ns
    return min(end_ns, max(module.started_ns, *(life.begin_ns for life in begun)) + AROUND_NS)


def calm_times(
    troubles: Iterable[Trouble], member_id: int, begin_ns: int, end_ns: int, recovery_ns: int
) -> Iterator[tuple[int, int]]:
    """The parts of an interval in which a member had no fault, and had recovered from earlier ones."""
    since_ns = begin_ns
    for trouble in sorted(troubles, key=lambda trouble: trouble.begin_ns):
        if trouble.hits(member_id, since_ns - recovery_ns, end_ns):
            if trouble.begin_ns > since_ns:
                yield since_ns, trouble.begin_ns
            since_ns = max(since_ns, trouble.end_ns + recovery_ns)
    if since_ns < end_ns:
        yield since_ns, end_ns


def same_quorum(
    well: Sequence[tuple[int, int, int]], quorum: int, begin_ns: int, end_ns: int
) -> Iterator[tuple[int, int, list[int]]]:
    """The parts of an interval in which one quorum was well all the time, with all members that were.

    `well` has a member and an interval each. From each moment at which a member became well, the quorum counts that
    was well the longest.
    """
    times = [(max(since, begin_ns), min(until, end_ns), member_id) for member_id, since, until in well]
    for since_ns in sorted({since for since, _, _ in times}):
        lasting = sorted((until, member_id) for since, until, member_id in times if since <= since_ns < until)
        if len(lasting) >= quorum:
            until_ns = lasting[-quorum][0]
            yield since_ns, until_ns, sorted(member_id for until, member_id in lasting if until >= until_ns)
