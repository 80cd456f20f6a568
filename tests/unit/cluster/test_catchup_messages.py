"""CatchupPosition, AppendPosition while catching up, StopCatchup: between a leader and a follower that is behind."""

import pytest

from support.cluster_world import ClusterWorld, Member
from upheaval_node.archive.replay import ReplaySession
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.steps import Steps
from upheaval_node.types import MAX_POSITION, MS, NULL_VALUE, S


def behind(gap: int = 200) -> tuple[ClusterWorld, Member, Member]:
    """A leader, and a follower that has just been started on a log that lacks messages."""
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    late = world.followers()[-1].id
    assert late > 0
    client = world.client()
    world.echo(client, [b"before"])
    world.kill(late)
    world.echo(client, [bytes(1000)] * gap)
    return world, leader, world.start(late)


def sent(member: Member, name: str, to: int) -> list[dict[str, int | str | bool | None]]:
    return [each for each in member.trace.named("send") if each["message"] == name and each["to"] == to]


def test_a_follower_asks_for_what_it_lacks_and_is_told_when_it_has_it() -> None:
    world, leader, late = behind()
    began = late.module.recording_log.find_last_term()
    assert began is not None
    term = leader.module.leadership_term_id
    world.until(lambda: late.is_follower)
    asked = sent(late, "CatchupPosition", leader.id)
    publisher = leader.module._log.leader_log.publisher
    assert publisher is not None
    assert asked[0]["leadership_term_id"] == term
    assert 0 < int(str(asked[0]["log_position"])) < publisher.position - 100_000
    assert asked[0]["follower_member_id"] == late.id
    assert asked[0]["catchup_endpoint"] == f"m{late.id}:4"
    reports = [each for each in sent(late, "AppendPosition", leader.id) if each["flags"] == 1]
    positions = [int(str(each["log_position"])) for each in reports]
    assert positions == sorted(positions)
    assert positions[-1] >= publisher.position - 1200
    world.until(lambda: sent(leader, "StopCatchup", late.id) != [])
    stop = sent(leader, "StopCatchup", late.id)[0]
    assert (stop["leadership_term_id"], stop["follower_member_id"]) == (term, late.id)
    world.until(lambda: not leader.module._log.catchups.has(late.id))


def test_a_leader_stops_a_replay_for_a_member_that_reports_all_of_the_log_and_no_other() -> None:
    world, leader, late = behind()
    module = leader.module
    publisher = module._log.leader_log.publisher
    assert publisher is not None
    until_asked(world, leader, late)
    before = len(sent(leader, "StopCatchup", late.id))
    short = cm.AppendPosition(module.leadership_term_id, publisher.position - 32, late.id, 1)
    module._messages.on_append_position(world.now, short)
    assert module._log.catchups.has(late.id)
    assert len(sent(leader, "StopCatchup", late.id)) == before
    module._messages.on_append_position(
        world.now, cm.AppendPosition(module.leadership_term_id, publisher.position, late.id, 1)
    )
    assert not module._log.catchups.has(late.id)
    assert len(sent(leader, "StopCatchup", late.id)) == before + 1


def replays(member: Member) -> list[ReplaySession]:
    return [session for session, _ in member.archive._replayer._sessions.values()]


def until_asked(world: ClusterWorld, leader: Member, late: Member) -> None:
    """Until the leader has asked its archive for a replay to the member that is behind."""
    while not leader.module._log.catchups.has(late.id):
        world.ns += MS // 10
        world.turn()


def test_a_follower_gets_one_replay_of_the_leaders_log_however_often_it_asks() -> None:
    world, leader, late = behind()
    until_asked(world, leader, late)
    asked = int(str(sent(late, "CatchupPosition", leader.id)[0]["log_position"]))
    module = leader.module
    again = cm.CatchupPosition(module.leadership_term_id, asked, late.id, f"m{late.id}:4")
    module._messages.on_catchup_position(world.now, again)
    while not replays(leader):
        world.turn()
    (replay,) = replays(leader)
    call = module._log.catchups._calls[late.id]
    module._messages.on_catchup_position(world.now, again)
    assert module._log.catchups._calls == {late.id: call}
    world.turn()
    assert replays(leader) == [replay]
    publisher = module._log.leader_log.publisher
    assert publisher is not None
    assert asked > 0
    assert (replay.recording_id, replay.position) == (module._log.recording_id, asked)
    assert replay._limit.end == MAX_POSITION
    # As the live log is published, so that it goes on where the replay ends; nothing of it is kept for anybody else.
    wanted = {"endpoint": f"m{late.id}:4", "session-id": str(publisher.session_id), "eos": "false", "linger": "0"}
    params = Channel.parse(replay._publication.channel).params
    assert {name: params[name] for name in wanted} == wanted
    assert replay._publication.stream_id == LOG_STREAM_ID


@pytest.mark.parametrize("has_begun", [False, True])
def test_a_replay_that_is_given_up_ends_at_once(has_begun: bool) -> None:
    """Also when the archive has not said yet which one it is."""
    world, leader, late = behind()
    until_asked(world, leader, late)
    catchups = leader.module._log.catchups
    call = catchups._calls[late.id]
    member = leader.module.members[late.id]
    world.kill(late.id)
    if has_begun:
        world.until(lambda: member.catchup_replay_session_id != NULL_VALUE, step_ms=1)
        assert [each.session_id for each in replays(leader)] == [member.catchup_replay_session_id]
    assert call.done is has_begun
    catchups.stop(late.id)
    assert not catchups.has(late.id)
    assert member.catchup_replay_session_id == NULL_VALUE
    world.until(lambda: call.done and replays(leader) == [], ms=100, step_ms=1)


def test_no_replay_begins_while_the_services_of_the_leader_join_its_log() -> None:
    """It has the session id of the log, so that they could take it for the log."""
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    module, other = leader.module, world.followers()[-1]
    log, ask = module._log, cm.CatchupPosition(module.leadership_term_id, 0, other.id, f"m{other.id}:4")
    log._joining = Steps(iter(()))  # type: ignore[arg-type]
    module._messages.on_catchup_position(world.now, ask)
    assert not log.catchups.has(other.id)
    log._joining = None
    module._messages.on_catchup_position(world.now, ask)
    assert log.catchups.has(other.id)


def test_a_member_that_looks_for_a_leader_needs_no_replay_any_more() -> None:
    world, leader, late = behind()
    until_asked(world, leader, late)
    module = leader.module
    term = module.leadership_term_id
    module._messages.on_canvass_position(world.now, cm.CanvassPosition(term, 96, term, late.id, 1 << 16))
    assert not module._log.catchups.has(late.id)
    assert module.members[late.id].log_position == 96


@pytest.mark.parametrize(("flags", "has_replay", "counts"), [(1, True, True), (0, True, False), (1, False, False)])
def test_only_who_reads_a_replay_of_this_log_counts_for_this_term(flags: int, has_replay: bool, counts: bool) -> None:
    """It reports an earlier term until it has come to the entry of this one."""
    world, leader, late = behind()
    until_asked(world, leader, late)
    module = leader.module
    follower = late.id if has_replay else next(each for each in range(3) if each not in (leader.id, late.id))
    term = module.leadership_term_id
    module._messages.on_append_position(world.now, cm.AppendPosition(term - 1, 96, follower, flags))
    assert module.members[follower].leadership_term_id == (term if counts else term - 1)
    assert module.members[follower].log_position == 96


def test_a_follower_drops_the_replay_when_it_is_told_and_only_then() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    follower, other = world.followers()
    module, log = follower.module, follower.module._log.follower_log
    log.add_catchup_destination()
    log._live = None
    assert log.has_catchup_destination
    assert log._subscription is not None
    listened = follower.driver._sources[log._subscription.registration_id]  # type: ignore[attr-defined]
    count = len(listened)
    term = module.leadership_term_id
    for stop in (
        cm.StopCatchup(term - 1, follower.id),
        cm.StopCatchup(term + 1, follower.id),
        cm.StopCatchup(term, other.id),
        cm.StopCatchup(term, leader.id),
    ):
        module._messages.on_stop_catchup(world.now, stop)
        assert log.has_catchup_destination
    module._messages.on_stop_catchup(world.now, cm.StopCatchup(term, follower.id))
    assert not log.has_catchup_destination
    assert len(listened) == count - 1


def test_in_an_election_the_leaders_messages_show_that_it_may_still_be_there() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    follower = world.followers()[0]
    module = follower.module
    term = module.leadership_term_id
    module._elections.enter(world.now, "a test wants one")
    for message, counts in (
        (cm.CommitPosition(term - 1, 0, leader.id), False),
        (cm.CommitPosition(term, 0, leader.id), True),
        (cm.CommitPosition(term + 1, 0, leader.id), True),
    ):
        world.ns += S // 100
        before = module._leader.heard_ns
        module._messages.on_commit_position(world.now, message)
        assert module._leader.heard_ns == (world.ns if counts else before)


def test_a_catchup_position_of_a_later_term_or_to_a_follower_starts_nothing() -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    follower, other = world.followers()
    term = leader.module.leadership_term_id
    endpoint = f"m{other.id}:4"
    for member, message in (
        (leader, cm.CatchupPosition(term + 1, 0, other.id, endpoint)),
        (leader, cm.CatchupPosition(term, 0, leader.id, endpoint)),
        (leader, cm.CatchupPosition(term, 0, 77, endpoint)),
        (follower, cm.CatchupPosition(term, 0, other.id, endpoint)),
    ):
        member.module._messages.on_catchup_position(world.now, message)
        assert not any(member.module._log.catchups.has(each) for each in (0, 1, 2, 77))
    leader.module._messages.on_catchup_position(world.now, cm.CatchupPosition(term, 0, other.id, endpoint))
    assert leader.module._log.catchups.has(other.id)
