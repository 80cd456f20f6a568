"""Invariants of a simulated cluster, checked after every cycle of every member while it runs.

There is one leader per term. Votes, terms and commit positions follow the rules of `checkers.ballots` and
`checkers.commits`, and every vote is in the node state, out of reach of a power cut. A follower has recorded what it
reports. The commit position of a live member never goes back, and only a leader raises the highest one: the others
commit what they heard of it. No member commits bytes that were changed on its disk. Any two members committed the same
bytes. Everything acknowledged was committed. The verdict still comes from the run folder; these checks find a broken
promise at the moment it breaks, even if nothing shows it later.
"""

from collections.abc import Sequence
from typing import Final

from upheaval.checkers.evidence.protocol_events import MemberEvent, Place
from upheaval.checkers.protocol.ballots import Ballot, BallotRules, require_stored
from upheaval.checkers.protocol.commits import CommitRules
from upheaval.checkers.signature import FOLLOWER, LEADER, Rule, Signature
from upheaval.checkers.verdict import Broken, Verdict
from upheaval.records import Operation
from upheaval.runtimes.simulated.cluster import SimulatedCluster, SimulatedMember
from upheaval.runtimes.simulated.errors import PromiseBroken
from upheaval.system import log_recording_id
from upheaval_node import counters as counter_types
from upheaval_node.archive.segments import parse_segment_file_name
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.rules import rules_named
from upheaval_node.counters import Counter
from upheaval_node.files import layout
from upheaval_node.files.node_state import NodeState
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.trace_lines import TraceValue
from upheaval_node.types import FRAME_ALIGNMENT, FRAME_HEADER_LENGTH, ClusterRole

_LEADER_STATES: Final = frozenset(state for state in ElectionState if state.name.startswith("LEADER_"))
_POSITION_UNKNOWN: Final = -1
_REPORT: Final = "AppendPosition"
_SESSION: Final = 12
"""Offset of the session id in the header of a data frame."""


class _Watch:
    """The last values of one incarnation of a member."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changes = -1
        self.commit: Counter | None = None
        self.role: Counter | None = None
        self.term: Counter | None = None
        self.election: Counter | None = None
        self.commit_position = _POSITION_UNKNOWN
        self.led = False
        """Whether it led at the last check, or had won its election. It may commit in the cycle in which it leaves."""
        self.compared = _POSITION_UNKNOWN
        self.recording_id: int | None = None
        self.recorded: Counter | None = None


class Invariants:
    """Watches one cluster. Raises `PromiseBroken` from inside the simulation."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._watches: dict[int, _Watch] = {}
        self._leaders: dict[int, int] = {}
        self._committed = bytearray()
        members = len(cluster.members)
        self._ballots = BallotRules(members)
        self._commits = CommitRules(
            members,
            cluster.settings.cluster.timeouts.leader_heartbeat_ns,
            copies_commit=not rules_named(cluster.settings.cluster.compatibility).names_first,
        )
        self._unreported: dict[int, list[MemberEvent]] = {member_id: [] for member_id in range(members)}
        """What members did since their last check: what they must have stored by it is looked at there."""
        self.highest_commit = 0
        cluster.journal.on_event = self._on_event
        cluster.on_cycle = self.check
        cluster.on_operation = self.check_acknowledged

    @property
    def terms(self) -> int:
        """The number of terms with a leader."""
        return len(self._leaders)

    def check(self, member: SimulatedMember) -> None:
        """Check after a cycle of this member."""
        process = member.process
        assert process is not None
        watch = self._watches.get(member.member_id)
        if watch is None or watch.name != process.name:
            watch = self._watches[member.member_id] = _Watch(process.name)
        counters = member.counters
        if counters.changes == watch.changes:
            return
        watch.changes = counters.changes
        if watch.commit is None or watch.term is None or watch.role is None or watch.election is None:
            watch.commit = counters.find(counter_types.COMMIT_POSITION)
            watch.role = counters.find(counter_types.CLUSTER_NODE_ROLE)
            watch.term = counters.find(counter_types.LEADERSHIP_TERM_ID)
            watch.election = counters.find(counter_types.ELECTION_STATE)
            if watch.commit is None or watch.term is None or watch.role is None or watch.election is None:
                return
        if not process.alive:
            # A client may have received answers for what it committed in its last cycle; its disk may have changed by
            # now.
            self.highest_commit = max(self.highest_commit, watch.commit.get())
            return
        self._check_protocol(member, watch)
        # The leader role is set when the election begins to end, the term only when it is closed.
        if watch.role.get() == ClusterRole.LEADER and watch.election.get() == ElectionState.CLOSED:
            self._check_leader(member.member_id, watch.term.get())
        self._check_commit(member, watch, watch.commit.get())

    def check_acknowledged(self, operation: Operation) -> None:
        """Check right after an answer arrived that some member has committed its position."""
        position = operation.position
        if position is not None and position > self.highest_commit:
            detail = f"operation {operation.id} was acknowledged at {position}, committed is {self.highest_commit}"
            self._broken(detail, Signature(Rule.ACKNOWLEDGED_EARLY))

    def _on_event(self, member_id: int, line: int, ns: int, event: str, fields: dict[str, TraceValue]) -> None:
        unreported = self._unreported.get(member_id)
        if unreported is not None:
            unreported.append(MemberEvent(Place(member_id, line), ns, event, fields))

    def _check_protocol(self, member: SimulatedMember, watch: _Watch) -> None:
        """Check the member's events since the last check by the rules for run folders, at the moment they break."""
        before = self._ballots.last_ballot(member.member_id)
        unreported, self._unreported[member.member_id] = self._unreported[member.member_id], []
        rule = Rule.BALLOT
        try:
            for event in unreported:
                rule = Rule.BALLOT
                self._ballots.on_event(event)
                rule = Rule.COMMIT
                self._commits.on_event(event)
            rule = Rule.BALLOT
            ballot = self._ballots.last_ballot(member.member_id)
            if ballot is not None and ballot is not before:
                assert member.process is not None
                stored = NodeState(member.disk.storage(member.process), sync_level=0).candidate_term_id
                require_stored(member.member_id, ballot, stored, layout.NODE_STATE)
                self._require_durable(member, ballot)
            rule = Rule.COMMIT
            self._require_recorded(member, watch, unreported)
        except Broken as broken:
            self._broken(str(broken), broken.signature or self._signature(rule, member.member_id), member.member_id)

    def _require_recorded(self, member: SimulatedMember, watch: _Watch, events: Sequence[MemberEvent]) -> None:
        """Check that a follower has recorded what it reports. An election meanwhile may have cut its log."""
        reports = [event for event in events if event.fields.get("message") == _REPORT and event.kind == TraceKind.SEND]
        if not reports or any(event.kind == TraceKind.ELECTION_STATE for event in events):
            return
        assert watch.election is not None
        recorded = self._recorded(member, watch) if watch.election.get() == ElectionState.CLOSED else None
        position = reports[-1].integer("log_position")
        if recorded is not None and position > recorded:
            detail = f"member {member.member_id} reported {position} of its log, of which its disk has {recorded}"
            raise reports[-1].invalid(detail, position=position)

    def _require_durable(self, member: SimulatedMember, ballot: Ballot) -> None:
        """Check that a power cut could not take the vote back. At sync level 0 it may."""
        if self._cluster.settings.cluster.file_sync_level and member.disk.find(layout.NODE_STATE).dirty:
            detail = (
                f"member {member.member_id} voted in term {ballot.term_id} ({ballot.place}) before its disk had "
                f"{layout.NODE_STATE}"
            )
            raise Broken(Verdict.INVALID, detail, members=(member.member_id,))

    def _check_leader(self, member_id: int, term: int) -> None:
        known = self._leaders.setdefault(term, member_id)
        if known != member_id:
            detail = f"members {known} and {member_id} both lead term {term}"
            self._broken(detail, self._signature(Rule.TWO_LEADERS, member_id), member_id)

    def _check_commit(self, member: SimulatedMember, watch: _Watch, position: int) -> None:
        leads = _leads(watch)
        led, watch.led = watch.led or leads, leads
        if position == watch.commit_position:
            return
        if position < watch.commit_position:
            detail = f"the commit position of {watch.name} went back from {watch.commit_position} to {position}"
            self._broken(detail, self._signature(Rule.COMMIT_WENT_BACK, member.member_id), member.member_id)
        if position > self.highest_commit and not led:
            detail = (
                f"{watch.name} commits up to {position}, but no leader has committed more than {self.highest_commit}"
            )
            self._broken(detail, self._signature(Rule.COMMITTED_EARLY, member.member_id), member.member_id)
        if watch.commit_position != _POSITION_UNKNOWN:
            self._require_intact(member, watch.commit_position, position)
        watch.commit_position = position
        self.highest_commit = max(self.highest_commit, position)
        self._compare(member, watch, position)

    def _require_intact(self, member: SimulatedMember, before: int, position: int) -> None:
        """Check that a member has not read bytes that a fault changed: they are those that it must find wrong. One that
        starts from a later snapshot does not read them.
        """
        for path, offset in member.disk.wrong_places:
            key = parse_segment_file_name(path.rpartition("/")[2])
            if key is not None and before <= key[1] + offset < position:
                detail = f"member {member.member_id} commits up to {position}, although {path} is wrong at {offset}"
                self._broken(detail, self._signature(Rule.DAMAGE_MISSED, member.member_id), member.member_id)

    def _compare(self, member: SimulatedMember, watch: _Watch, commit: int) -> None:
        """Compare the committed bytes of this recording with those of all members before."""
        recorded = self._recorded(member, watch)
        # The member is not responsible for bytes that a fault changed on its disk.
        if recorded is None or member.disk.has_wrong_bytes:
            return
        end = min(commit, recorded)
        begin = max(watch.compared, 0)
        while begin < end:
            block = self._read(member, watch, begin, end)
            if not block:
                return
            known = self._committed[begin : begin + len(block)]
            if known != block[: len(known)]:
                at = next(index for index, pair in enumerate(zip(known, block, strict=False)) if pair[0] != pair[1])
                detail = f"{watch.name} committed another log from position {begin + at} on, up to {end}"
                self._broken(detail, self._signature(Rule.COMMITTED_DIFFERS, member.member_id), member.member_id)
            if begin + len(known) == len(self._committed):
                self._committed += block[len(known) :]
            begin += len(block)
            watch.compared = begin

    def _recorded(self, member: SimulatedMember, watch: _Watch) -> int | None:
        if watch.recording_id is None:
            content = member.disk.read(layout.RECORDING_LOG) if member.disk.has(layout.RECORDING_LOG) else b""
            watch.recording_id = log_recording_id(content)
            if watch.recording_id is None:
                return None
        if watch.recorded is None or watch.recorded.is_closed:
            prefix = counter_types.recording_key_prefix(watch.recording_id)
            watch.recorded = member.counters.find(counter_types.RECORDING_POSITION, prefix)
        return None if watch.recorded is None else watch.recorded.get()

    def _read(self, member: SimulatedMember, watch: _Watch, begin: int, end: int) -> bytes:
        """Bytes from one segment; empty when the member does not have that segment."""
        length = self._cluster.settings.archive.segment_length
        base = begin // length * length
        path = f"{layout.ARCHIVE_DIRECTORY}/{watch.recording_id}-{base}.rec"
        if not member.disk.has(path):
            return b""
        return _without_sessions(member.disk.find(path).read(begin - base, min(end, base + length) - begin))

    def _signature(self, rule: Rule, member_id: int) -> Signature:
        """A signature with the role and the election state of the member, if it has counters for them."""
        watch = self._watches.get(member_id)
        if watch is None or watch.role is None or watch.election is None:
            return Signature(rule)
        role, state = watch.role.get(), watch.election.get()
        return Signature(
            rule,
            role=LEADER if role == ClusterRole.LEADER else FOLLOWER,
            state=ElectionState(state).name if state in set(ElectionState) else "",
        )

    def _broken(self, what: str, signature: Signature, member_id: int | None = None) -> None:
        world = self._cluster.world
        raise PromiseBroken(f"seed {world.seed}: {what}", signature, member_id, world.now_ns)


def _leads(watch: _Watch) -> bool:
    """Whether the member leads, or has won its election: it then commits the log that a quorum has."""
    assert watch.role is not None
    assert watch.election is not None
    return watch.role.get() == ClusterRole.LEADER or watch.election.get() in _LEADER_STATES


def _without_sessions(block: bytes) -> bytes:
    """Clear the session ids in all frames: a member that copied the log received it in another session."""
    frames = bytearray(block)
    offset = 0
    while offset + FRAME_HEADER_LENGTH <= len(frames):
        length = int.from_bytes(frames[offset : offset + 4], "little", signed=True)
        if length <= 0:
            break
        frames[offset + _SESSION : offset + _SESSION + 4] = bytes(4)
        offset += (length + FRAME_ALIGNMENT - 1) & -FRAME_ALIGNMENT
    return bytes(frames[:offset])
