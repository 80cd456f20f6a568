"""A backup and scripted members: what it asks, and what it makes of what they answer."""

import pytest

from support.archive_world import ArchiveWorld
from support.backup_bench import BackupBench, MemberArchive, members_string
from support.backup_world import Says
from support.media_world import offer
from upheaval_node.backup.node import _require_recording_log
from upheaval_node.backup.states import BackupState
from upheaval_node.counters import BACKUP_ERRORS, BACKUP_LIVE_LOG_POSITION, BACKUP_STATE, cluster_key
from upheaval_node.errors import UsageError
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ClusterMarkHeader, read_mark_file
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.types import MAX_POSITION, NEVER_NS, NULL_POSITION


def counter(bench: BackupBench, type_id: int) -> int:
    found = bench.counters.find(type_id, cluster_key(0))
    assert found is not None
    return found.get()


def following(bench: BackupBench, archive: MemberArchive, member_id: int = 0) -> None:
    """Answer the next query of the backup, and wait until it follows the log."""
    member = bench.members[member_id]
    member.say(member.offer(member.query(), commit_position_counter_id=archive.commit_position.id))
    bench.await_state(BackupState.BACKING_UP)


def test_recordings_without_the_log_that_names_them_are_refused_before_anything_is_done() -> None:
    world = ArchiveWorld()
    member = world.member()
    _require_recording_log(member.storage)
    publication = member.driver.add_publication("aeron:ipc?term-length=64k", 100)
    world.call(member.client.start_recording("aeron:ipc", 100))
    offer(world, publication, b"x")
    world.settle()
    with pytest.raises(UsageError, match=r"holds 1 recordings, but cluster/recording\.log is missing"):
        _require_recording_log(member.storage)
    member.storage.put(layout.RECORDING_LOG, b"")
    _require_recording_log(member.storage)


# --- the query -----------------------------------------------------------------------------------------------------


def test_a_query_says_who_asks_and_where_the_answer_goes() -> None:
    bench = BackupBench(credentials=Says(b"me"))
    query = bench.members[0].query()
    assert (query.response_channel, query.response_stream_id) == ("aeron:tcp?endpoint=backup:1", 108)
    assert (query.version, query.log_position, query.encoded_credentials) == (3 << 8, MAX_POSITION, b"me")
    assert counter(bench, BACKUP_STATE) == BackupState.BACKUP_QUERY


def test_the_mark_file_is_that_of_a_backup() -> None:
    bench = BackupBench()
    header = read_mark_file(bench.storage, layout.CLUSTER_MARK, ClusterMarkHeader).header
    assert (header.component_type, header.member_id, header.service_id) == (ClusterComponentType.BACKUP, -1, -1)


def test_a_member_that_does_not_answer_is_left_for_the_next_one() -> None:
    bench = BackupBench(3)
    asked = []
    for _ in range(3):
        member = bench.asked()
        asked.append(member.id)
        member.query()
        bench.until(lambda member=member: bench.asked() is not member)  # type: ignore[misc]
    assert sorted(asked) == [0, 1, 2]


def test_the_order_of_the_members_differs_from_backup_to_backup() -> None:
    assert len({BackupBench(3, seed=seed).asked().id for seed in range(8)}) > 1


def test_without_any_answer_a_round_is_given_up_and_the_next_one_begun() -> None:
    bench = BackupBench()
    assert bench.await_reset() == "no progress in BACKUP_QUERY"
    bench.await_state(BackupState.BACKUP_QUERY)
    assert counter(bench, BACKUP_ERRORS) == 1


def test_a_challenge_is_answered_once_and_the_answer_is_the_outstanding_request() -> None:
    bench = BackupBench(credentials=Says(b"me", b"proof"))
    member = bench.members[0]
    query = member.query()
    challenge = cm.Challenge(correlation_id=query.correlation_id, cluster_session_id=-1, encoded_challenge=b"?")
    member.say(challenge)
    (answer,) = (each for each in member.heard if isinstance(each, cm.ChallengeResponse))
    assert (answer.cluster_session_id, answer.encoded_credentials) == (-1, b"proof")
    assert answer.correlation_id != query.correlation_id
    member.say(challenge)
    member.say(cm.Challenge(answer.correlation_id, -1, b"again"))
    assert sum(isinstance(each, cm.ChallengeResponse) for each in member.heard) == 1
    member.say(member.offer(query))
    assert bench.state is BackupState.BACKUP_QUERY
    member.say(member.offer(query, correlation_id=answer.correlation_id))
    assert bench.state is not BackupState.BACKUP_QUERY


@pytest.mark.parametrize("code", [cm.EventCode.ERROR, cm.EventCode.AUTHENTICATION_REJECTED])
def test_a_refusal_is_said_with_its_detail_and_ends_the_round(code: cm.EventCode) -> None:
    bench = BackupBench()
    member = bench.members[0]
    member.say(cm.SessionEvent(correlation_id=member.query().correlation_id, code=code, detail="not you"))
    assert bench.state is BackupState.RESET_BACKUP
    assert bench.errors.texts == [f"backup refused: {code.name}: not you"]
    assert counter(bench, BACKUP_ERRORS) == 1


def test_a_member_that_redirects_is_passed_over_without_an_error() -> None:
    bench = BackupBench(2)
    member = bench.asked()
    event = cm.SessionEvent(correlation_id=member.query().correlation_id, code=cm.EventCode.REDIRECT, detail="1=m1:1")
    member.say(event)
    assert (bench.state, bench.errors.texts) == (BackupState.RESET_BACKUP, [])
    for _ in range(3):
        bench.await_state(BackupState.BACKUP_QUERY)
        assert bench.asked() is not member
        bench.await_reset()


def test_events_of_others_and_of_no_request_mean_nothing() -> None:
    bench = BackupBench()
    member = bench.members[0]
    query = member.query()
    for correlation_id in (query.correlation_id + 1, -1, cm.SessionEvent().correlation_id):
        member.say(cm.SessionEvent(correlation_id=correlation_id, code=cm.EventCode.ERROR, detail="x"))
    member.say(cm.SessionEvent(correlation_id=query.correlation_id, code=cm.EventCode.OK))
    member.say(cm.HeartbeatResponse(correlation_id=query.correlation_id))
    member.say(member.offer(query, correlation_id=query.correlation_id + 1))
    assert (bench.state, bench.errors.texts) == (BackupState.BACKUP_QUERY, [])


@pytest.mark.parametrize(("source", "leader"), [("LEADER", 5), ("LEADER", -1), ("FOLLOWER", None)])
def test_a_member_of_the_wrong_kind_is_passed_over(source: str, leader: int | None) -> None:
    bench = BackupBench(2, source=source)
    member = bench.asked()
    leader_id = member.id if leader is None else leader
    member.say(member.offer(member.query(), leader_member_id=leader_id))
    assert bench.state is BackupState.RESET_BACKUP
    assert f"member {member.id} is not a {source}" in bench.reasons
    bench.await_state(BackupState.BACKUP_QUERY)
    assert bench.asked() is not member


def test_an_impossible_answer_ends_the_round_with_an_error() -> None:
    bench = BackupBench()
    member = bench.members[0]
    member.say(member.offer(member.query(), member_id=9))
    assert bench.state is BackupState.RESET_BACKUP
    assert "member 9" in bench.errors.texts[0]


def test_bytes_that_are_no_message_cost_their_sender_the_stream_and_nothing_else() -> None:
    bench = BackupBench()
    member = bench.members[0]
    query = member.query()
    member.say_bytes(b"\xff" * 40)
    assert bench.state is BackupState.BACKUP_QUERY
    assert any(text.startswith("backup message: ") for text in bench.errors.texts)
    bench.advance(3000)
    member.say(member.offer(member.query()))
    assert query.correlation_id
    assert "offer" in bench.reasons


# --- the copy ------------------------------------------------------------------------------------------------------


def test_the_log_is_followed_up_to_what_is_committed() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    committed = archive.begin_term(0)
    following(bench, archive)
    bench.until(lambda: counter(bench, BACKUP_LIVE_LOG_POSITION) == committed)
    archive.commit_position.set(0)
    appended = archive._publication.offer(b"x" * 100)
    bench.advance(500)
    assert counter(bench, BACKUP_LIVE_LOG_POSITION) == committed < appended
    archive.commit_position.set(appended)
    bench.until(lambda: counter(bench, BACKUP_LIVE_LOG_POSITION) == appended)


def test_terms_are_named_as_they_begin_in_the_log() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    archive.begin_term(0)
    archive.append_bytes(b"x" * 64)
    second = archive._publication.position
    archive.begin_term(3)
    following(bench, archive)
    bench.settle()
    third = archive._publication.position
    archive.begin_term(4)
    bench.settle()
    entries = bench.agent.recording_log.entries
    assert [(each.leadership_term_id, each.term_base_log_position, each.recording_id) for each in entries] == [
        (0, 0, 0),
        (3, second, 0),
        (4, third, 0),
    ]


def test_an_archive_without_the_log_ends_the_round() -> None:
    bench = BackupBench()
    bench.member_archive()
    member = bench.members[0]
    member.say(member.offer(member.query(), log_recording_id=77))
    assert "the log is not replayed" in bench.await_reset()
    assert counter(bench, BACKUP_ERRORS) == 1


def test_an_archive_that_cannot_be_reached_ends_the_round() -> None:
    bench = BackupBench()
    member = bench.members[0]
    member.say(member.offer(member.query()))
    assert "no progress" in bench.await_reset()


def test_a_snapshot_that_the_member_does_not_have_ends_the_round() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    archive.begin_term(0)
    member = bench.members[0]
    snapshots = tuple(cm.BackupResponseSnapshot(recording, 0, 0, 64, 1, recording - 11) for recording in (11, 10))
    member.say(member.offer(member.query(), snapshots=snapshots))
    assert "recording 11" in bench.await_reset()
    assert [fields["state"] for fields in bench.trace.named("backup_state")] == ["SNAPSHOT_RETRIEVE", "RESET_BACKUP"]


def test_the_member_s_log_that_ends_is_gone_on_with_after_a_pause() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    archive.begin_term(0)
    following(bench, archive)
    bench.settle()
    bench.call(archive.member.client.stop_recording_by_identity(0))
    assert "the log of member 0 ended" in bench.await_reset()
    bench.await_state(BackupState.BACKUP_QUERY)
    assert bench.agent.recording_log.find_last_term_recording_id() == 0


def test_another_member_s_answer_while_a_log_is_followed_ends_the_round() -> None:
    bench = BackupBench(2)
    member = bench.asked()
    archive = bench.member_archive(member.id)
    archive.begin_term(0)
    following(bench, archive, member.id)
    bench.await_state(BackupState.BACKUP_QUERY)
    other = 1 - member.id
    member.say(member.offer(member.query(), member_id=other))
    assert bench.reasons[-1] == f"member {other} answered instead of {member.id}"


def test_the_member_that_is_followed_is_asked_again_first() -> None:
    bench = BackupBench(3)
    member = bench.asked()
    archive = bench.member_archive(member.id)
    archive.begin_term(0)
    following(bench, archive, member.id)
    first = member.query()
    bench.await_state(BackupState.BACKUP_QUERY)
    bench.until(lambda: member.query().correlation_id != first.correlation_id)
    log = bench.agent.live_log
    member.say(member.offer(member.query(), commit_position_counter_id=archive.commit_position.id))
    assert bench.state is BackupState.BACKING_UP
    assert bench.agent.live_log is log is not None


def test_the_counter_of_the_next_query_may_be_changed_by_others() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    archive.begin_term(0)
    following(bench, archive)
    bench.agent.published.query_deadline.set(bench.now.epoch_ms + 60_000)
    asked = len(bench.members[0].heard)
    bench.advance(5000)
    assert len(bench.members[0].heard) == asked
    bench.agent.published.query_deadline.set(0)
    bench.await_state(BackupState.BACKUP_QUERY)


# --- where a copy begins -------------------------------------------------------------------------------------------


def replayed_from(bench: BackupBench) -> int:
    log = bench.agent.live_log
    assert log is not None
    return log.start_position


@pytest.mark.parity("BA-01")
def test_a_copy_goes_on_where_the_own_recording_stopped() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    stopped = archive.begin_term(0)
    following(bench, archive)
    bench.settle()
    for agent in reversed(bench.backup_agents):
        agent.close()
    bench.settle()
    again = BackupBench(storage=bench.storage)
    other = again.member_archive()
    other.begin_term(0)
    other.append_bytes(b"more")
    following(again, other)
    assert replayed_from(again) == stopped
    assert again.agent.live_log is not None
    assert again.agent.live_log.recording_id == 0


@pytest.mark.parity("BA-02")
def test_the_first_copy_asks_for_the_beginning() -> None:
    bench = BackupBench(replay_start="LATEST_SNAPSHOT")
    assert bench.agent._first_position() == NULL_POSITION
    archive = bench.member_archive()
    archive.begin_term(0)
    following(bench, archive)
    assert replayed_from(bench) == 0


# --- what it leaves ------------------------------------------------------------------------------------------------


def test_rounds_that_fail_leave_no_recordings_and_no_requests() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    archive.begin_term(0)
    member = bench.members[0]
    good = bench.call(archive.member.client.start_recording("aeron:ipc?session-id=77", 106))
    publication = archive.member.driver.add_publication("aeron:ipc?term-length=64k", 106, session_id=77)
    bench.settle()
    publication.offer(b"state")
    bench.settle()
    publication.close()
    bench.settle()
    bench.call(archive.member.client.stop_recording(good))
    snapshots = tuple(cm.BackupResponseSnapshot(recording, 0, 0, 64, 1, recording - 2) for recording in (2, 1))
    for _ in range(3):
        bench.await_state(BackupState.BACKUP_QUERY)
        count = len(member.heard)
        bench.until(lambda count=count: len(member.heard) > count)  # type: ignore[misc]
        member.say(member.offer(member.query(), snapshots=snapshots))
        assert "recording 2" in bench.await_reset()
    bench.await_state(BackupState.BACKUP_QUERY)
    bench.advance(100)
    own = bench.client(bench.backup_agents[1])  # type: ignore[arg-type]  # its media driver
    bench.until(lambda: own.is_connected)
    listed = own.list_recordings(0, 100)
    waiting = own.list_recording_subscriptions(0, 100)
    bench.until(lambda: listed.done and waiting.done)
    assert (listed.descriptors, waiting.subscriptions) == ([], [])


def test_a_backup_that_ends_leaves_its_counters_to_nobody() -> None:
    bench = BackupBench()
    bench.members[0].query()
    bench.agent.close()
    bench.agent.close()
    assert bench.counters.find(BACKUP_STATE) is None
    assert bench.agent.do_work(bench.now) == 0
    assert bench.agent.next_deadline_ns() == NEVER_NS
    assert members_string(1) == "0,m0:1,m0:2,m0:3,m0:4,m0:5"
