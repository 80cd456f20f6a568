"""The intervals and time-outs of a backup at their defaults, in virtual time."""

from support.backup_bench import BackupBench
from upheaval_node.backup.states import BackupState
from upheaval_node.settings import backup_profile_settings
from upheaval_node.types import MS, S

STEP = 20 * MS


def default_bench(count: int = 1) -> BackupBench:
    return BackupBench(count, settings=backup_profile_settings("aeron"))


def entered(bench: BackupBench, state: BackupState) -> list[int]:
    """When a state was entered, each time."""
    events = [(ns, fields) for ns, name, fields in bench.trace.events if name == "backup_state"]
    return [ns for ns, fields in events if fields["state"] == state.name]


def test_a_member_may_take_five_seconds_to_answer() -> None:
    bench = default_bench(2)
    member = bench.asked()
    member.query()
    begin = bench.ns
    bench.until(lambda: bench.asked() is not member)
    assert 5 * S - 2 * STEP <= bench.ns - begin <= 5 * S + 2 * STEP


def test_a_round_may_stand_still_for_ten_seconds_and_the_next_one_begins_thirty_seconds_later() -> None:
    bench = default_bench()
    begin = bench.ns
    bench.await_reset()
    assert 10 * S - 2 * STEP <= bench.ns - begin <= 10 * S + 2 * STEP
    (reset,) = entered(bench, BackupState.RESET_BACKUP)
    bench.until(lambda: bench.state is BackupState.BACKUP_QUERY, ms=40_000)
    (again,) = entered(bench, BackupState.BACKUP_QUERY)
    assert 30 * S <= again - reset <= 30 * S + 2 * STEP


def test_the_next_query_is_due_an_hour_after_a_round() -> None:
    bench = default_bench()
    archive = bench.member_archive()
    archive.begin_term(0)
    member = bench.members[0]
    member.say(member.offer(member.query(), commit_position_counter_id=archive.commit_position.id))
    bench.await_state(BackupState.BACKING_UP)
    (now_ns,) = entered(bench, BackupState.BACKING_UP)
    assert bench.agent.published.query_deadline.get() == now_ns // MS + 3_600_000
