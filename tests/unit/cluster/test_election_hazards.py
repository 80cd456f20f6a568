"""Executions in which an elected leader could lose what a service had applied, and how they end."""

import pytest

from support.cluster_world import ClusterWorld, Member
from support.election_script import ElectionScript
from support.election_texts import CANVASS, FOLLOWER_LOG_REPLICATION, LEADER_LOG_REPLICATION, LEADER_READY
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol import cluster_messages as cm


def step(world: ClusterWorld) -> None:
    if world.turn() == 0:
        world.ns += 1_000_000


def run_until_state(world: ClusterWorld, state: ElectionState) -> Member:
    """Turn by turn, until some member is in this state of an election."""
    for _ in range(200_000):
        step(world)
        for member in world.members.values():
            election = member.module.election
            if election is not None and election.state is state:
                return member
    raise AssertionError(f"nobody comes to {state.name}\n{world.describe()}")


def has_applied(member: Member, prefix: bytes) -> bool:
    return any(payload.startswith(prefix) for _, payload in member.service.messages)


def test_a_term_without_entries_does_not_beat_a_longer_log_that_was_applied() -> None:
    world = ClusterWorld(3)
    world.start_all()
    first = world.await_all()
    client = world.client()
    world.echo(client, [b"a"] * 5)
    world.advance(200)
    # The first leader alone has a tail.
    for member in world.followers():
        member.network.cut_off()
    world.send(client, [b"tail-%d" % number for number in range(20)])
    world.advance(50)
    first_id = first.id
    world.kill(first_id)
    world.clients.clear()
    for member in world.members.values():
        member.network.rejoin()
    # The next leader names its term and dies, before any other member has named it.
    second = run_until_state(world, ElectionState.LEADER_LOG_REPLICATION)
    (voter_id,) = (member_id for member_id in world.members if member_id != second.id)
    world.kill(voter_id)
    run_until_state(world, ElectionState.LEADER_READY)
    last = second.module.recording_log.find_last_term()
    assert last is not None
    named = last.leadership_term_id
    world.kill(second.id)
    # The first one, with its tail, is elected by the third, and dies when its service has applied the tail.
    first = world.start(first_id)
    voter = world.start(voter_id)
    for _ in range(200_000):
        step(world)
        if has_applied(first, b"tail"):
            break
    assert has_applied(first, b"tail")
    applied = list(first.service.messages)
    last = voter.module.recording_log.find_last_term()
    assert last is not None
    assert last.leadership_term_id > named
    world.kill(first_id)
    # Now the one with the empty term is back.
    world.start(second.id)
    world.await_all()
    world.start(first_id)
    world.await_all()
    world.echo(world.client(), [b"b"] * 5)
    world.until(lambda: len({len(member.service.messages) for member in world.members.values()}) == 1)
    for member in world.members.values():
        assert member.ended is None
        assert member.service.messages[: len(applied)] == applied


def test_a_leader_commits_the_old_log_once_a_quorum_has_named_its_term() -> None:
    script = ElectionScript(LEADER_LOG_REPLICATION)
    # Both others have all of the log, but have not named the term: they could still follow another leader.
    script.say("0 canvasses term=0 at=1024\n 1 canvasses term=0 at=1024\n wait 1000\n is LEADER_LOG_REPLICATION")
    assert all(m.log_position <= 512 for _, m in script.sent("CommitPosition") if isinstance(m, cm.CommitPosition))
    assert script.terms[-1] == (1, 1024, -1)
    script.say("0 appended term=1 at=1024\n wait 0\n is LEADER_REPLAY\n sent CommitPosition to=1 log-position=1024")


@pytest.mark.parametrize("message", ["committed term=2 at=1024", "leads term=2 base=1024", "canvasses term=2 at=1024"])
def test_a_leader_that_waits_for_a_quorum_in_vain_makes_way_for_a_later_one(message: str) -> None:
    """Found by the simulation: cut off in this state, a member led without followers for ever: none canvassed."""
    for begin in (LEADER_LOG_REPLICATION, LEADER_READY):
        script = ElectionScript(f"{begin}\n wait 0\n 0 {message}\n is INIT\n wait 0\n is CANVASS")
        script.say("1 leads term=2 log-term=1 base=1024\n wait 40\n is CLOSED")


@pytest.mark.parametrize("message", ["committed term=1 at=1024", "leads term=1 base=1024", "canvasses term=1 at=1024"])
def test_a_leader_that_waits_for_a_quorum_does_not_mind_its_own_term(message: str) -> None:
    ElectionScript().say(f"{LEADER_LOG_REPLICATION}\n 0 {message}\n is LEADER_LOG_REPLICATION")


def test_a_follower_names_the_term_before_it_reports_the_whole_old_log_under_it() -> None:
    script = ElectionScript(f"{CANVASS}\n0 leads term=1 base=1024 commit=0\n wait 0\n sent AppendPosition")
    assert script.terms == [(0, 0, 1024), (1, 1024, -1)]
    script.say("1 asks term=0 at=4096 for=2\n sent Vote to=1 vote=no")


def test_a_follower_that_copies_the_end_of_the_old_log_names_the_term_too() -> None:
    script = ElectionScript(f"{FOLLOWER_LOG_REPLICATION}\n wait 0\n let replicate to=1536\n hold replicate\n wait 0")
    script.say("sent AppendPosition log-position=1536")
    assert script.terms == [(0, 0, -1)]
    script.say("let replicate to=2048\n wait 0\n sent AppendPosition log-position=2048")
    assert script.terms == [(0, 0, 2048), (1, 2048, -1)]
    # It goes on to ask for what follows the term that it copied.
    script.say("0 committed term=1 at=2048\n wait 10\n sent CanvassPosition log-leadership-term-id=0 log-position=2048")
    script.say("1 asks term=0 at=4096 for=2\n sent Vote to=1 vote=no")


def test_nothing_is_replayed_that_the_leader_may_still_lose() -> None:
    """A commit position within the old log says that a quorum has copies, not that it has named the term."""
    script = ElectionScript(f"{CANVASS}\n hold replay\n 0 leads term=1 base=1024 commit=768\n wait 1000")
    script.say("is FOLLOWER_REPLAY")
    assert script.log.work == []
    script.say("0 committed term=1 at=1024\n wait 10")
    assert len(script.log.work) == 1


def test_after_a_replay_that_was_given_up_the_log_ends_in_its_last_term_again() -> None:
    for end in ("fail replay", "let replay to=1920"):
        script = ElectionScript("member term=1 at=2048 base=1024 consumed=0\n hold replay\n wait 0")
        script.say("0 leads term=1 log-term=1 next=-1 next-base=-1 base=1024 at=2048 commit=2048\n wait 0")
        script.say(f"is FOLLOWER_REPLAY\n reads term=0 base=0 at=96\n {end}\n wait 20\n is CANVASS")
        script.say("sent CanvassPosition to=0 log-leadership-term-id=1 log-position=2048")
        # Asked about term 0 the leader would have answered that term 1 begins at 1024, and the rest had been cut off.
        assert script.log.recorded == 2048


def test_a_member_that_lost_the_end_of_its_log_does_not_claim_its_terms() -> None:
    """At sync level 0 a power cut may leave a recording log that names more than the recording holds."""
    world = ClusterWorld(3)
    world.start_all()
    world.await_all()
    client = world.client()
    world.echo(client, [b"a"] * 5)
    world.advance(200)
    poor = world.followers()[0]
    end = poor.module.commit_position
    world.kill(poor.id)
    log = RecordingLog(world.storages[poor.id], create=False)
    last = log.find_last_term()
    assert last is not None
    log.append_term(last.recording_id, last.leadership_term_id + 1, end + 320, 0)
    world.echo(client, [b"b"] * 5)
    back = world.start(poor.id)
    world.until(lambda: back.is_follower)
    assert back.module.recording_log.find_term_entry(last.leadership_term_id + 1) is None
    world.until(lambda: back.service.messages == world.await_leader().service.messages)


@pytest.mark.parametrize(("own_base", "leaders_base"), [(1024, 2048), (1024, 1024), (2048, 1024)])
def test_a_term_that_its_leader_alone_has_named_gives_way_to_one_that_was_filled_in(
    own_base: int, leaders_base: int
) -> None:
    """The leader of term 2 never heard of term 1, and has it without entries where its own log ended.

    An equal term id proves nothing then. It does no harm either: a term has entries only after a quorum has named it,
    so that here it has none.
    """
    script = ElectionScript(f"member term=1 at={own_base} base={own_base} consumed=512\n wait 0")
    script.say(f"0 leads term=2 log-term=1 base={leaders_base} commit={leaders_base}\n wait 40")
    if script.state is ElectionState.CANVASS:
        last = script.election.log_leadership_term_id
        script.say(f"0 leads term=2 log-term={last} next={last + 1} base={leaders_base}\n wait 40")
    assert script.state is ElectionState.CLOSED, script.last_error
    assert script.log.recorded in (own_base, leaders_base)
    assert script.election.append_position == leaders_base
    assert script.terms[-1] == (2, leaders_base, -1)
