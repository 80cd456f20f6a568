"""Intervals and time-outs of elections and members at Aeron's defaults, in virtual time."""

from dataclasses import replace
from itertools import pairwise

import pytest

from support.cluster_world import ClusterWorld
from support.election_script import ElectionScript
from support.election_texts import (
    CANVASS,
    FOLLOWER_LOG_REPLICATION,
    FOLLOWER_REPLAY,
    LEADER_LOG_REPLICATION,
    LEADER_READY,
    LEADER_REPLAY,
    NOMINATE,
)
from upheaval_node.cluster.election_states import Role
from upheaval_node.errors import UsageError
from upheaval_node.settings import ClusterTimeouts, MemberSettings, profile_settings
from upheaval_node.types import MS, S


def default_settings() -> MemberSettings:
    """Aeron's time-outs with the small logs of the test profile."""
    test = profile_settings("test")
    timeouts = profile_settings("aeron").cluster.timeouts
    return replace(test, cluster=replace(test.cluster, timeouts=timeouts))


@pytest.mark.parity("CX-23")
def test_the_defaults_are_aerons() -> None:
    assert profile_settings("aeron").cluster.timeouts == ClusterTimeouts()
    assert ClusterTimeouts() == ClusterTimeouts(
        startup_canvass_ns=60 * S,
        election_ns=S,
        election_status_interval_ns=100 * MS,
        leader_heartbeat_ns=10 * S,
        leader_heartbeat_interval_ns=200 * MS,
        session_ns=10 * S,
        termination_ns=10 * S,
    )
    with pytest.raises(UsageError, match="twice"):
        ClusterTimeouts(startup_canvass_ns=19 * S)


# State, what it sends, and how often; it is sent first when the state is entered.
SENT = [
    (CANVASS, "CanvassPosition", 100),
    (LEADER_LOG_REPLICATION, "NewLeadershipTerm", 200),
    (LEADER_LOG_REPLICATION, "CommitPosition", 200),
    (LEADER_REPLAY, "NewLeadershipTerm", 200),
    (LEADER_REPLAY, "CommitPosition", 200),
    (LEADER_READY, "NewLeadershipTerm", 200),
    (FOLLOWER_LOG_REPLICATION, "AppendPosition", 200),
    (CANVASS + "\n0 leads term=1 base=1024 commit=0", "AppendPosition", 200),
]


@pytest.mark.parametrize(("text", "name", "interval_ms"), SENT)
def test_a_state_repeats_its_message(text: str, name: str, interval_ms: int) -> None:
    script = ElectionScript(text)
    before = len(script.intervals_ms(name, 0))
    script.say("wait 2000")
    intervals = script.intervals_ms(name, 0)[before + 1 :]
    assert len(intervals) >= 2000 // interval_ms - 2
    assert set(intervals) == {interval_ms}


def test_a_change_of_state_sends_at_once() -> None:
    script = ElectionScript(f"{LEADER_LOG_REPLICATION}\n wait 10\n sent NewLeadershipTerm to=0\n hold replay")
    script.say("0 appended term=1 at=1024\n wait 0\n unsent NewLeadershipTerm to=0\n wait 10")
    script.say("sent NewLeadershipTerm to=0 is-startup=no\n sent CommitPosition to=0 log-position=1024")


def test_positions_are_reported_and_committed_when_they_change() -> None:
    script = ElectionScript(f"{LEADER_LOG_REPLICATION}\n wait 10\n sent CommitPosition to=0 log-position=512")
    script.say("1 appended term=1 at=768\n wait 0\n unsent CommitPosition to=0\n 0 appended term=1 at=768\n wait 0")
    script.say("sent CommitPosition to=0 log-position=768 leadership-term-id=1 leader-member-id=2")
    # Back again: nothing is said until it has recovered.
    script.say("0 appended term=1 at=544\n 1 appended term=1 at=544\n wait 1000\n unsent CommitPosition")
    script = ElectionScript(f"{FOLLOWER_REPLAY}\n wait 10\n unsent AppendPosition")
    script = ElectionScript(f"{FOLLOWER_LOG_REPLICATION}\n wait 10\n sent AppendPosition to=0 log-position=1024")
    script.say("let replicate to=1536\n hold replicate\n wait 0\n sent AppendPosition to=0 log-position=1536")


def test_a_nomination_comes_within_half_the_election_timeout() -> None:
    ElectionScript().say(f"{NOMINATE}\n wait 500\n is CANDIDATE_BALLOT")


@pytest.mark.parity("EL-10")
def test_a_ballot_lasts_for_the_election_timeout() -> None:
    script = ElectionScript(NOMINATE)
    while script.state.name == "NOMINATE":
        script.say("wait 10")
    script.say("wait 990\n is CANDIDATE_BALLOT\n wait 10\n is CANVASS")


class Quiet:
    """A cluster that has been idle for a while, with Aeron's time-outs."""

    def __init__(self) -> None:
        self.world = ClusterWorld(3, settings=default_settings())
        self.world.start_all()
        self.leader = self.world.await_all()
        self.world.advance(1000)

    def sent_at(self, member_id: int, name: str, to: int) -> list[int]:
        """When the member sent messages of this name to another."""
        events = self.world.members[member_id].trace.events
        return [
            ns for ns, event, fields in events if event == "send" and fields["message"] == name and fields["to"] == to
        ]


def test_an_idle_leader_and_its_followers_speak_every_200_ms() -> None:
    quiet = Quiet()
    quiet.world.advance(3000, step_ms=1)
    leader_id, follower_id = quiet.leader.id, quiet.world.followers()[0].id
    for sender, name, receiver in (
        (leader_id, "CommitPosition", follower_id),
        (follower_id, "AppendPosition", leader_id),
    ):
        times = quiet.sent_at(sender, name, receiver)
        intervals = {(later - earlier) // MS for earlier, later in pairwise(times) if later > quiet.world.ns - 2 * S}
        assert intervals == {200}, name


def test_a_leader_that_grows_speaks_at_once() -> None:
    quiet = Quiet()
    world = quiet.world
    client = world.client()
    world.advance(50)
    client.offer(b"now")
    world.settle()
    for follower in world.followers():
        assert quiet.sent_at(quiet.leader.id, "CommitPosition", follower.id)[-1] == world.ns
        assert quiet.sent_at(follower.id, "AppendPosition", quiet.leader.id)[-1] == world.ns
    assert len({m.module.commit_position for m in world.members.values()}) == 1


def test_a_silent_leader_is_given_up_after_ten_seconds() -> None:
    quiet = Quiet()
    follower = quiet.world.followers()[0]
    heard = follower.module._leader.heard_ns
    quiet.world.kill(quiet.leader.id)
    quiet.world.until(lambda: follower.module.election is not None)
    assert 10 * S <= quiet.world.ns - heard <= 10 * S + 30 * MS
    assert "leader heartbeat timeout" in follower.errors.texts[-1]
    elected = quiet.world.ns
    new = quiet.world.await_leader()
    # Half a second of delay at most and, without the third member's vote, the whole ballot.
    assert S <= quiet.world.ns - elected <= 1.6 * S
    assert new.id != quiet.leader.id


def test_a_leader_steps_down_ten_seconds_after_its_quorum_fell_silent() -> None:
    quiet = Quiet()
    module = quiet.leader.module
    for member_id in [member.id for member in quiet.world.followers()]:
        quiet.world.kill(member_id)
    heard = max(m.time_of_last_append_position_ns or 0 for m in module.members.values() if m is not module._context.own)
    commit = module.commit_position
    quiet.world.until(lambda: module.election is not None)
    assert 10 * S <= quiet.world.ns - heard <= 10 * S + 30 * MS
    assert any("inactive follower quorum" in text for text in quiet.leader.errors.texts)
    assert module.role is Role.FOLLOWER
    assert module.commit_position == commit
    quiet.world.advance(30_000, step_ms=100)
    assert quiet.world.leader() is None


def test_the_first_canvass_of_a_cluster_that_lacks_a_member_takes_a_minute() -> None:
    world = ClusterWorld(3, settings=default_settings())
    world.start(0)
    world.start(1)
    began = world.ns
    world.until(lambda: world.leader() is not None, ms=70_000)
    # Once or twice two members stand against each other.
    assert 61 * S <= world.ns - began <= 65 * S


def test_all_members_of_a_cluster_elect_a_leader_without_waiting() -> None:
    world = ClusterWorld(3, settings=default_settings())
    began = world.ns
    world.start_all()
    world.await_all()
    assert world.ns - began <= 2 * S


def test_a_leader_that_closes_in_good_order_is_replaced_without_waiting() -> None:
    quiet = Quiet()
    quiet.world.close(quiet.leader.id)
    began = quiet.world.ns
    new = quiet.world.await_all()
    assert new.id != quiet.leader.id
    assert quiet.world.ns - began <= 0.6 * S
    reasons = [fields["reason"] for fields in new.trace.named("election_state")]
    assert "log disconnected from leader: eos=True" in reasons or "log recording stopped: eos=True" in reasons
    assert "unanimous leader" in reasons[-6:]


def test_a_session_that_says_nothing_is_closed_after_ten_seconds() -> None:
    quiet = Quiet()
    world = quiet.world
    client = world.client()
    world.echo(client, [b"last"])
    last = world.ns
    world.clients.clear()
    service = quiet.leader.service
    world.until(lambda: bool(service.closed))
    assert 10 * S <= world.ns - last <= 10 * S + 300 * MS
    assert service.closed[0][1] == "TIMEOUT"
