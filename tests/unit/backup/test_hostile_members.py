"""What members and others may send to a backup: it never ends, and nothing of it is kept."""

from random import Random

import pytest

from support.backup_bench import BackupBench, members_string
from support.hostile_inputs import hostile
from support.wire_data import vectors
from upheaval_node.backup.queries import FRAGMENT_LIMIT
from upheaval_node.backup.states import BackupState
from upheaval_node.counters import BACKUP_ERRORS, cluster_key
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import NULL_INT64
from upheaval_node.protocol.message import with_values

VALID = [each.encoded for each in vectors() if each.schema.table.name == cm.SCHEMA.table.name]
EXTREMES = (-(1 << 63), -1, 0, 1, 31, 32, (1 << 62), (1 << 63) - 1)


def test_hostile_bytes_on_the_consensus_stream_change_nothing() -> None:
    bench = BackupBench()
    member = bench.members[0]
    member.query()
    random = Random(5)
    for _ in range(80):
        member.say_bytes(hostile(random, random.choice(VALID))[:1300] or b"\0")
        bench.advance(20)
    assert bench.state in (BackupState.BACKUP_QUERY, BackupState.RESET_BACKUP)
    assert len(bench.agent._queries.poll(bench.now)) <= FRAGMENT_LIMIT
    bench.await_state(BackupState.BACKUP_QUERY)
    bench.until(lambda: bench.agent._queries.correlation_id not in (-1, NULL_INT64))
    member.say(member.offer(member.query()))
    assert "offer" in bench.reasons


@pytest.mark.parametrize("field", ["log_recording_id", "log_term_base_log_position", "log_leadership_term_id"])
def test_extreme_answers_end_the_round_at_most(field: str) -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    archive.begin_term(0)
    member = bench.members[0]
    for value in EXTREMES:
        bench.await_state(BackupState.BACKUP_QUERY)
        asked = len(member.heard)
        bench.until(lambda asked=asked: len(member.heard) > asked)  # type: ignore[misc]
        counter = {"commit_position_counter_id": archive.commit_position.id}
        member.say(member.offer(member.query(), **counter, **{field: value}))
        bench.until(lambda: bench.state in (BackupState.BACKING_UP, BackupState.RESET_BACKUP))
        if bench.state is BackupState.BACKING_UP:
            bench.agent.published.query_deadline.set(0)
    assert bench.agent.recording_log.find_last_term_recording_id() in (-1, 0)


@pytest.mark.parametrize(
    "members",
    [
        "",
        "|",
        "0,a",
        members_string(3).replace("m0:5", "x"),
        members_string(3).replace("m0:5", "m0:99999"),
        "0,a,b,c,d,e",
    ],
)
def test_impossible_members_end_the_round(members: str) -> None:
    bench = BackupBench()
    member = bench.members[0]
    member.say(member.offer(member.query(), cluster_members=members))
    assert bench.await_reset()
    found = bench.counters.find(BACKUP_ERRORS, cluster_key(0))
    assert found is not None
    assert found.get() == 1


def test_a_flood_of_answers_that_nobody_asked_for_is_not_kept() -> None:
    bench = BackupBench()
    member = bench.members[0]
    answer = member.offer(member.query(), correlation_id=12345)
    snapshots = tuple(cm.BackupResponseSnapshot(1, 1, 0, 64, 1, number - 1) for number in range(20))
    for _ in range(1000):
        member.say(with_values(answer, snapshots=snapshots))
    agent = bench.agent
    assert (agent.state, agent.supplier_id, agent._wanted) == (BackupState.BACKUP_QUERY, -1, [])
    assert bench.errors.texts == []


def test_an_answer_to_no_query_at_all_is_no_answer() -> None:
    bench = BackupBench()
    member = bench.members[0]
    # No member is there to be asked, so that no query is outstanding.
    member._subscription.close()
    for correlation_id in (-1, NULL_INT64):
        member.say(member.offer(cm.BackupQuery(), correlation_id=correlation_id))
        assert bench.agent._queries.correlation_id == -1
        assert (bench.state, bench.agent.supplier_id) == (BackupState.BACKUP_QUERY, -1)


def test_a_log_with_entries_that_cannot_be_read_ends_the_round_and_not_the_backup() -> None:
    bench = BackupBench()
    archive = bench.member_archive()
    archive.begin_term(0)
    member = bench.members[0]
    member.say(member.offer(member.query(), commit_position_counter_id=archive.commit_position.id))
    bench.await_state(BackupState.BACKING_UP)
    bench.settle()
    term = cm.SCHEMA.encode(cm.NewLeadershipTermEvent(leadership_term_id=-5))
    archive.append_bytes(term)
    assert "log entry at" in bench.await_reset()
    assert [each.leadership_term_id for each in bench.agent.recording_log.entries] == [0]
