"""Notices of snapshots that a standby took: when they are written down, and which of them are believed."""

from itertools import count, cycle

import pytest
from hypothesis import example, given, settings as examples, strategies as st

from support.asking_party import Party
from support.cluster_world import ClusterWorld, Member
from unit.cluster.test_backup_requests import configured, started
from upheaval_node.cluster.standby_notices import MAX_ENDPOINTS, MAX_NOTICES, StandbyNotices
from upheaval_node.files.recording_log import Entry, EntryType
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values
from upheaval_node.types import S

Snapshot = cm.StandbySnapshotSnapshot

HOSTS = count()


def standby_entries(member: Member) -> list[Entry]:
    return [each for each in member.module.recording_log.entries if each.type is EntryType.STANDBY_SNAPSHOT]


def received(member: Member) -> int:
    return member.module.counters.standby_snapshots.get()


def notice(member: Member, position: int, endpoint: str = "standby:5", recording_id: int = 10) -> tuple[Snapshot, ...]:
    """What a standby says of snapshots at a position of the last term."""
    term = member.module.recording_log.find_last_term()
    assert term is not None
    return tuple(
        Snapshot(
            recording_id + number,
            term.leadership_term_id,
            term.term_base_log_position,
            position,
            1_700_000_000_000,
            service_id,
            endpoint,
        )
        for number, service_id in enumerate((0, -1))
    )


def queue(world: ClusterWorld, member: Member, *snapshots: Snapshot) -> None:
    # Each from a host of its own, so that all of them are reported.
    member.module._notices.queue(world.now, f"host-{next(HOSTS)}:1", snapshots)
    world.advance(50)


def test_every_member_writes_down_what_a_standby_says_and_does_not_answer() -> None:
    world, leader, standby = started()
    world.echo(world.client(), [b"a"])
    position = leader.module.commit_position
    for member in (leader, *world.followers()):
        snapshots = notice(member, position)
        standby.send(member, standby.notice(*snapshots))
        world.until(lambda member=member: received(member) == 1)  # type: ignore[misc]  # bound now
        entries = standby_entries(member)
        assert [each.service_id for each in entries] == [0, -1]
        for entry, snapshot in zip(entries, snapshots, strict=True):
            assert (
                entry.recording_id,
                entry.leadership_term_id,
                entry.term_base_log_position,
                entry.log_position,
                entry.timestamp,
                entry.archive_endpoint,
            ) == (
                snapshot.recording_id,
                snapshot.leadership_term_id,
                snapshot.term_base_log_position,
                position,
                snapshot.timestamp,
                "standby:5",
            )
        assert set(member.module.recording_log.latest_standby_snapshots(1)) == {"standby:5"}
        assert member.module.recording_log.get_latest_snapshot() is None
    world.advance(200)
    assert standby.heard == []


@pytest.mark.parity("SM-01")
def test_a_notice_waits_until_the_log_is_committed_that_far() -> None:
    world, leader, standby = started(1)
    client = world.client()
    ahead = leader.module.commit_position + 96
    standby.send(leader, standby.notice(*notice(leader, ahead)))
    world.advance(500)
    assert standby_entries(leader) == []
    assert received(leader) == 0
    world.echo(client, [b"a"])
    assert leader.module.commit_position >= ahead
    world.until(lambda: received(leader) == 1)
    assert [each.log_position for each in standby_entries(leader)] == [ahead, ahead]


@pytest.mark.parity("SM-03")
def test_with_a_delay_a_notice_is_written_down_when_it_has_passed() -> None:
    world, leader, standby = started(1, configured(standby_snapshot_delay_ns=S))
    standby.send(leader, standby.notice(*notice(leader, leader.module.commit_position)))
    world.advance(900)
    assert standby_entries(leader) == []
    world.advance(200)
    assert len(standby_entries(leader)) == 2


def test_notices_are_written_down_in_an_election_too() -> None:
    world, leader, _ = started()
    snapshots = notice(leader, leader.module.commit_position)
    for follower in world.followers():
        world.kill(follower.id)
    world.until(lambda: leader.module.election is not None)
    queue(world, leader, *snapshots)
    assert leader.module.election is not None
    assert len(standby_entries(leader)) == 2


def test_what_was_written_down_before_is_not_written_again() -> None:
    world, leader, standby = started(1)
    snapshots = notice(leader, leader.module.commit_position)
    for times in range(1, 5):
        standby.send(leader, standby.notice(*snapshots))
        world.until(lambda times=times: received(leader) == times)  # type: ignore[misc]  # bound now
    assert len(standby_entries(leader)) == 2
    assert len(leader.module.recording_log.latest_standby_snapshots(1)["standby:5"]) == 2


def wrong(snapshots: tuple[Snapshot, ...], **changes: object) -> tuple[Snapshot, ...]:
    return (snapshots[0], with_values(snapshots[1], **changes))  # type: ignore[arg-type]


def test_a_notice_that_cannot_be_right_is_reported_in_one_line_and_dropped() -> None:
    world, leader, _ = started(1)
    position = leader.module.commit_position
    good = notice(leader, position)
    bad = [
        good[:1],
        (*good, good[0]),
        wrong(good, service_id=0),
        wrong(good, service_id=7),
        wrong(good, log_position=position - 32),
        wrong(good, leadership_term_id=9),
        wrong(good, recording_id=-1),
        wrong(good, archive_endpoint="elsewhere:5"),
        *(tuple(with_values(each, log_position=at) for each in good) for at in (-32, position - 1)),
        *(tuple(with_values(each, leadership_term_id=term) for each in good) for term in (-1, 5)),
        tuple(with_values(each, term_base_log_position=32) for each in good),
        *(notice(leader, position, endpoint) for endpoint in ("", "a", "a:b", "a:1|b", "x" * 5000 + ":1", "\n:1")),
    ]
    for number, snapshots in enumerate(bad):
        before = len(leader.errors.texts)
        queue(world, leader, *snapshots)
        assert len(leader.errors.texts) == before + 1, number
        assert len(leader.errors.texts[-1]) < 1000
        assert "\n" not in leader.errors.texts[-1]
    queue(world, leader)
    assert standby_entries(leader) == []
    assert leader.is_leader
    queue(world, leader, *good)
    assert len(standby_entries(leader)) == 2


def test_notices_of_far_positions_do_not_keep_others_out() -> None:
    world, leader, _ = started(1)
    position = leader.module.commit_position
    for number in range(3 * MAX_NOTICES):
        queue(world, leader, *notice(leader, position + (1 << 40) + 32 * number))
    notices = leader.module._notices
    assert isinstance(notices, StandbyNotices)
    assert len(notices._notices) == MAX_NOTICES
    queue(world, leader, *notice(leader, position))
    assert len(standby_entries(leader)) == 2


def test_only_so_many_archives_get_into_the_recording_log() -> None:
    world, leader, _ = started(1)
    position = leader.module.commit_position
    for number in range(MAX_ENDPOINTS + 5):
        queue(world, leader, *notice(leader, position, f"standby-{number}:5"))
    assert len(standby_entries(leader)) == 2 * MAX_ENDPOINTS
    assert "one archive too many" in leader.errors.texts[-1]


VALUES = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 300)


EDITS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(Snapshot.__match_args__[:5], VALUES),
        "service_id": st.integers(-(1 << 31), (1 << 31) - 1) | st.integers(-1, 0),
        "archive_endpoint": st.text(max_size=30),
    },
)


@examples(max_examples=60, deadline=None)
@given(st.lists(EDITS, max_size=4), st.integers(-1, 1))
@example([{}, {}], 0)
def test_no_notice_harms_a_member(edits: list[dict[str, object]], frames_off: int) -> None:
    """Edits of a good notice, of which the member has the position or has it not."""
    world, leader, standby = MEMBER.take()
    good = notice(leader, leader.module.commit_position + 32 * frames_off)
    snapshots = [with_values(snapshot, **edit) for snapshot, edit in zip(cycle(good), edits, strict=False)]
    message = cm.SCHEMA.decode(cm.SCHEMA.encode(standby.notice(*snapshots)))
    assert isinstance(message, cm.StandbySnapshot)
    before = len(standby_entries(leader))
    queue(world, leader, *message.snapshots)
    assert leader.ended is None
    written = standby_entries(leader)
    assert all(entry.log_position <= leader.module.commit_position for entry in written)
    if not any(edits) and len(edits) == len(good) and not before:
        assert len(written) == (len(good) if frames_off <= 0 else 0)


class _Member:
    """One running member for all examples."""

    def __init__(self) -> None:
        self._started: tuple[ClusterWorld, Member, Party] | None = None

    def take(self) -> tuple[ClusterWorld, Member, Party]:
        if self._started is None:
            self._started = started(1)
        return self._started


MEMBER = _Member()
