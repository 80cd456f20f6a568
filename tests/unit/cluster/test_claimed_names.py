"""Who sends a message of the consensus stream must be who it says it is, as far as its certificate tells."""

import pytest

from support.asking_party import Party
from support.cluster_world import ClusterWorld, Member
from support.memory_network import MemoryConnection
from upheaval_node.cluster.claimed_names import contradiction
from upheaval_node.ports import Connection, ConnectionHandler
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message

ADDRESS = "10.0.0.1:4000"

OF_MEMBER_1: list[Message] = [
    cm.CanvassPosition(follower_member_id=1),
    cm.RequestVote(candidate_member_id=1),
    cm.Vote(follower_member_id=1, candidate_member_id=0),
    cm.NewLeadershipTerm(leader_member_id=1),
    cm.AppendPosition(follower_member_id=1),
    cm.CommitPosition(leader_member_id=1),
    cm.CatchupPosition(follower_member_id=1),
    cm.TerminationAck(member_id=1),
    cm.StopCatchup(follower_member_id=0),
    cm.TerminationPosition(),
]


@pytest.mark.parametrize("message", OF_MEMBER_1, ids=lambda message: type(message).__name__)
def test_a_member_speaks_for_itself_only_and_nobody_else_speaks_for_members(message: Message) -> None:
    names_nobody = isinstance(message, cm.StopCatchup | cm.TerminationPosition)
    outcome = {
        name: contradiction(f"{name}@{ADDRESS}", message) == ""
        for name in ("member-1", "member-2", "member-10", "backup-1", "standby-1", "client", "member-1x")
    }
    assert outcome == {
        "member-1": True,
        "member-2": names_nobody,
        "member-10": names_nobody,
        "backup-1": False,
        "standby-1": False,
        "client": False,
        "member-1x": False,
    }


@pytest.mark.parametrize("message", [cm.BackupQuery(), cm.HeartbeatRequest(), cm.StandbySnapshot()])
def test_backups_and_standbys_ask_what_is_theirs(message: Message) -> None:
    outcome = [contradiction(f"{name}@{ADDRESS}", message) == "" for name in ("backup-0", "standby-3", "member-0")]
    assert outcome == [True, True, False]


def test_a_challenge_is_answered_by_backups_or_handed_on_by_members() -> None:
    outcome = [
        contradiction(f"{name}@{ADDRESS}", cm.ChallengeResponse()) == "" for name in ("backup-0", "member-2", "client")
    ]
    assert outcome == [True, True, False]


def test_without_certificates_nothing_is_known_and_nothing_refused() -> None:
    assert [contradiction(ADDRESS, message) for message in OF_MEMBER_1] == [""] * len(OF_MEMBER_1)
    assert contradiction(ADDRESS, cm.RequestVote(candidate_member_id=1)) == ""


def certified(world: ClusterWorld, member: Member, name: str) -> Party:
    """A party on the network whose connections to the member have a certificate with this name."""
    listener = world.network.listeners[f"m{member.id}:2"]
    accept = listener.accept

    def accept_named(connection: Connection) -> ConnectionHandler:
        assert isinstance(connection, MemoryConnection)
        connection.peer = f"{name}@stranger:9"
        return accept(connection)

    listener.accept = accept_named
    return Party(world, "stranger")


@pytest.mark.parametrize("is_itself", [False, True])
def test_only_a_member_itself_calls_for_an_election(is_itself: bool) -> None:
    """The request is one that any member would send; all that differs is whose certificate its connection has."""
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    candidate, other = world.followers()
    sender = candidate if is_itself else other
    stranger = certified(world, leader, f"member-{sender.id}")
    term = leader.module.leadership_term_id
    stranger.send(leader, cm.RequestVote(term, 1 << 30, term + 1, candidate.id, 1 << 16))
    ignored = leader.module.counters.ignored_messages
    world.until(lambda: leader.module.election is not None if is_itself else ignored.get() == 1)
    lines = [text for text in leader.errors.texts if "under another name" in text]
    assert len(lines) == (0 if is_itself else 1)
    assert (leader.module.election is not None) == is_itself
