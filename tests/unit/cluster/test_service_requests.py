"""Timers and messages of services in whole clusters: once each, over changes of leader, restarts and snapshots."""

from ast import literal_eval
from collections import Counter

import pytest

from support.cluster_world import ClusterWorld, KeepingService, Member
from unit.cluster.test_snapshots import restart, take_snapshot
from upheaval_node.errors import UsageError
from upheaval_node.service.api import ClientSession, SnapshotImage, SnapshotPublication


class Asking(KeepingService):
    """Does what messages say: `t ID DELAY` schedules, `c ID` cancels, `o TEXT` offers, `l LENGTH` offers zeros; notes
    what comes of it.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fired: list[tuple[int, int]] = []
        self.from_services: list[bytes] = []
        self.refused: list[str] = []

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        super().on_session_message(session, timestamp, payload, position)
        if session is None:
            self.from_services.append(bytes(payload))
        else:
            self.do(timestamp, bytes(payload).split())

    def do(self, timestamp: int, words: list[bytes]) -> None:
        cluster = self.cluster
        assert cluster is not None
        match words:
            case [b"t", correlation_id, delay]:
                cluster.schedule_timer(int(correlation_id), timestamp + int(delay))
            case [b"c", correlation_id]:
                cluster.cancel_timer(int(correlation_id))
            case [b"o", text]:
                assert cluster.offer(text, b"/%d" % len(self.messages)) > 0
            case [b"l", length]:
                try:
                    cluster.offer(bytes(int(length)))
                except UsageError as error:
                    self.refused.append(str(error))
            case _:
                raise AssertionError(words)

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.fired.append((correlation_id, timestamp))

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        publication.offer(repr((self.messages, self.fired, self.from_services)).encode())

    def on_start(self, cluster: object, snapshot_image: SnapshotImage | None) -> None:
        self.cluster = cluster  # type: ignore[assignment]
        state = None if snapshot_image is None else snapshot_image.read()
        if state is not None:
            self.messages, self.fired, self.from_services = literal_eval(state.decode())
            self.started_with = len(self.messages)


def started(count: int = 3, services: int = 1) -> tuple[ClusterWorld, Member]:
    world = ClusterWorld(count, services=lambda: [Asking() for _ in range(services)])
    world.start_all()
    return world, world.await_all()


def asking(member: Member, service_id: int = 0) -> Asking:
    service = member.services[service_id]
    assert isinstance(service, Asking)
    return service


def all_fired(world: ClusterWorld, *correlation_ids: int) -> bool:
    return all(sorted(i for i, _ in asking(m).fired) == sorted(correlation_ids) for m in world.members.values())


def ask(world: ClusterWorld, *payloads: bytes) -> None:
    client = world.client()
    world.echo(client, list(payloads))
    client.session.close()


@pytest.mark.parity("CN-04")
def test_timers_fire_on_all_members_at_the_same_place_and_not_before_their_time() -> None:
    world, leader = started()
    ask(world, b"t 1 300", b"t 2 100", b"t 3 200", b"c 3")
    world.until(lambda: all_fired(world, 1, 2))
    world.advance(500)
    assert all_fired(world, 1, 2)
    assert [correlation_id for correlation_id, _ in asking(leader).fired] == [2, 1]
    assert len({tuple(asking(member).fired) for member in world.members.values()}) == 1
    (_, second), (_, first) = asking(leader).fired
    assert first - second >= 190


def test_a_timer_outlives_its_leader_and_fires_once() -> None:
    world, leader = started()
    ask(world, b"t 1 100", b"t 2 4000")
    world.until(lambda: all_fired(world, 1))
    world.kill(leader.id)
    world.await_all()
    world.until(lambda: all_fired(world, 1, 2))
    world.start(leader.id)
    world.until(lambda: len(world.members) == 3 and all_fired(world, 1, 2))
    world.advance(1000)
    assert all_fired(world, 1, 2)


def test_a_timer_that_was_set_anew_fires_once_whoever_reads_the_log_again() -> None:
    """A module reads expiries ahead of the requests of its service: it cannot say which of them they are for."""
    world, _ = started()
    ask(world, b"t 1 6000", b"c 1", b"t 1 50")
    ask(world, b"t 2 6000", b"t 2 50")
    world.until(lambda: all_fired(world, 1, 2))
    restart(world)
    world.until(lambda: all_fired(world, 1, 2))
    world.advance(8000)
    assert all_fired(world, 1, 2)


@pytest.mark.parametrize("has_snapshot", [False, True])
def test_a_timer_outlives_a_restart(has_snapshot: bool) -> None:
    world, _ = started()
    ask(world, b"t 1 50", b"t 2 6000", b"t 3 6000", b"c 3")
    world.until(lambda: all_fired(world, 1))
    if has_snapshot:
        take_snapshot(world)
    restart(world)
    assert all(asking(m).started_with == (4 if has_snapshot else 0) for m in world.members.values())
    world.until(lambda: all_fired(world, 1, 2))
    world.advance(500)
    assert all_fired(world, 1, 2)


def test_an_expiry_that_was_not_committed_comes_from_the_next_leader() -> None:
    world, leader = started()
    ask(world, b"t 1 500")
    leader.network.cut_off()
    world.until(lambda: leader.module._state.timers.has_uncommitted)
    world.until(lambda: world.leader() not in (None, leader))
    leader.network.rejoin()
    world.until(lambda: all_fired(world, 1))
    world.advance(500)
    assert all_fired(world, 1)


@pytest.mark.parity("CN-05")
def test_a_message_of_a_service_comes_back_once_to_every_service_of_every_member() -> None:
    world, leader = started(services=2)
    client = world.client()
    world.send(client, [b"o x"])
    world.until(lambda: all(len(s.messages) == 3 for m in world.members.values() for s in m.services))
    for member in world.members.values():
        for service_id in (0, 1):
            assert asking(member, service_id).from_services == [b"x/1", b"x/1"]
    assert leader.module._state.pending_messages[0].log_id == -(1 << 63) + 1
    assert leader.module._state.pending_messages[1].log_id == -(1 << 63) + (1 << 56) + 1


def test_messages_of_services_are_in_the_log_once_whoever_leads() -> None:
    world, leader = started()
    client = world.client()
    world.echo(client, [b"o a%d" % n for n in range(30)])
    world.kill(leader.id)
    world.clients.clear()
    world.await_all()
    ask(world, *[b"o b%d" % n for n in range(30)])
    world.start(leader.id)
    world.until(lambda: all(len(asking(m).from_services) == 60 for m in world.members.values()))
    restart(world)
    ask(world, b"o c")
    world.until(lambda: all(len(asking(m).from_services) == 61 for m in world.members.values()))
    for member in world.members.values():
        names = Counter(text.split(b"/")[0] for text in asking(member).from_services)
        assert max(names.values()) == 1


def test_a_message_that_the_log_cannot_hold_is_refused_on_every_member_and_in_every_replay() -> None:
    """The log has terms of 64 KiB, the control channel of 128 KiB."""
    world, _ = started()
    ask(world, b"l 8161", b"l 16353", b"l 8160", b"o x")
    texts = [f"message of {length} bytes for the log, limit is 8160" for length in (8161, 16353)]

    def has_all(member: Member) -> bool:
        return (asking(member).refused, list(map(len, asking(member).from_services))) == (texts, [8160, 3])

    world.until(lambda: all(map(has_all, world.members.values())))
    restart(world)
    world.until(lambda: all(map(has_all, world.members.values())))


@pytest.mark.parity("SI-03")
def test_a_message_that_only_a_lone_leader_has_is_appended_by_the_next_one_if_its_cause_is() -> None:
    world, leader = started()
    ask(world, b"o before")
    world.until(lambda: all(len(asking(m).from_services) == 1 for m in world.members.values()))
    client = world.client()
    for follower in world.followers():
        follower.network.cut_off()
    world.send(client, [b"o lost"])
    world.advance(200)
    world.kill(leader.id)
    world.clients.clear()
    for member in world.members.values():
        member.network.rejoin()
    world.await_all()
    world.start(leader.id)
    ask(world, b"o beyond")
    world.until(lambda: all(len(asking(m).from_services) >= 2 for m in world.members.values()))
    world.advance(500)
    heard = {tuple(asking(member).from_services) for member in world.members.values()}
    assert len(heard) == 1
    (texts,) = heard
    assert len(texts) == len(set(texts)) == 2


@pytest.mark.parity("SI-06")
def test_what_services_say_survives_a_snapshot_in_the_middle() -> None:
    world, _ = started(services=2)
    client = world.client()
    world.send(client, [b"o a%d" % n for n in range(40)])
    take_snapshot(world)
    world.send(client, [b"o b%d" % n for n in range(5)])
    world.until(lambda: all(len(asking(m).from_services) == 90 for m in world.members.values()))
    before = [asking(m).messages for m in world.members.values()]
    restart(world)
    world.until(lambda: [asking(m).messages for m in world.members.values()] == before)
    assert all(asking(m).started_with > 0 for m in world.members.values())
