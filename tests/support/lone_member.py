"""One election alone: the test is its consensus module, its peers and its clock."""

from random import Random
from typing import cast

from support.memory_storage import MemoryStorage
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_base import ElectionContext
from upheaval_node.cluster.election_states import ElectionState, Role
from upheaval_node.cluster.leader_contact import LeaderContact
from upheaval_node.cluster.log_access import LogAccess, LogTransfer
from upheaval_node.cluster.members import Membership, parse_members
from upheaval_node.cluster.rules import rules_named
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message
from upheaval_node.settings import ClusterSettings, profile_settings
from upheaval_node.types import MS, Now

POSITION = 18_080
SETTINGS = profile_settings("test").cluster
TIMEOUTS = SETTINGS.timeouts
MEMBERS = "|".join(f"{i},m{i}:1,m{i}:2,m{i}:3,m{i}:4,m{i}:5" for i in range(3))


class LoneLog:
    """The part of a log that these elections use. Implements that part of `LogAccess`."""

    recording_id = 0

    def __init__(self, commit_position: int) -> None:
        self.commit_position = commit_position

    def leave_term(self, now: Now, log_position: int) -> int | None:
        return POSITION

    def replay(self, start_position: int, stop_position: int) -> LogTransfer:
        raise AssertionError("nothing to replay")


class Around:
    """What an election knows of its member beside the log; it keeps what was sent."""

    def __init__(self, storage: MemoryStorage, members: str, member_id: int, settings: ClusterSettings) -> None:
        self.node_state = NodeState(storage)
        self.recording_log = RecordingLog(storage)
        self.leader = LeaderContact()
        self.sent: list[tuple[int, Message]] = []
        self.states: list[tuple[ElectionState, Role, str]] = []
        heartbeat_ns = settings.timeouts.leader_heartbeat_ns
        self.context = ElectionContext(
            Membership(parse_members(members), member_id, heartbeat_ns),
            settings,
            rules_named(settings.compatibility),
            self.node_state,
            self.recording_log,
            self.leader,
            Random(1),
            lambda now: now.epoch_ms,
            self.send,
            lambda now, state, role, reason: self.states.append((state, role, reason)),
        )

    def send(self, now: Now, member_id: int, message: Message) -> bool:
        self.sent.append((member_id, message))
        return True


class LoneMember:
    """Member 2 in an election that begins at term 0; time and the other members are what the test says."""

    def __init__(self, *, persisted_term: int = 0, is_node_startup: bool = False, log_position: int = POSITION) -> None:
        self.ns = 10_000 * MS
        storage = MemoryStorage()
        NodeState(storage).propose_max_candidate_term_id(persisted_term, POSITION, 0)
        self.around = Around(storage, MEMBERS, 2, SETTINGS)
        self.election = Election(
            self.around.context,
            cast(LogAccess, LoneLog(log_position)),
            is_node_startup=is_node_startup,
            absent_leader_id=-1,
            leadership_term_id=0,
            term_base_log_position=0,
            log_position=log_position,
            append_position=POSITION,
            now=self.now,
        )
        self.tick()

    @property
    def now(self) -> Now:
        return Now(self.ns, self.ns // MS)

    def state(self) -> ElectionState:
        return self.election.state

    def tick(self, duration_ns: int = 0) -> None:
        self.ns += duration_ns
        self.election.do_work(self.now)

    def asked_for_vote(self, candidate_id: int, term: int, position: int = POSITION, *, log_term: int = 0) -> None:
        request = cm.RequestVote(
            log_leadership_term_id=log_term,
            log_position=position,
            candidate_term_id=term,
            candidate_member_id=candidate_id,
        )
        self.election.on_request_vote(self.now, request)

    def hears_leader(self, leader_id: int, term: int, position: int = POSITION, *, commit: int = POSITION) -> None:
        announcement = cm.NewLeadershipTerm(
            log_leadership_term_id=0,
            next_leadership_term_id=term,
            next_term_base_log_position=position,
            next_log_position=-1,
            leadership_term_id=term,
            term_base_log_position=position,
            log_position=position,
            leader_member_id=leader_id,
            log_session_id=7,
            commit_position=commit,
        )
        self.election.on_new_leadership_term(self.now, announcement)

    @property
    def votes(self) -> list[tuple[int, int, bool]]:
        return [
            (m.candidate_member_id, m.candidate_term_id, m.vote) for _, m in self.around.sent if isinstance(m, cm.Vote)
        ]
