"""Peers of the consensus stream that lie, repeat themselves and shout: the cluster goes on, and says so once."""

import tracemalloc
from functools import cache
from random import Random

import pytest
from hypothesis import given, settings, strategies as st

from support.asking_party import Party
from support.cluster_world import ClusterWorld, Member
from upheaval_node.cluster.ignored_messages import MAX_LATE, MAX_PAIRS, IgnoredMessages
from upheaval_node.cluster.module_messages import MAX_TERM_GAP
from upheaval_node.counters import Counters
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message
from upheaval_node.types import Now

FLOOD = 10_000
SMALL_FLOOD = 300
"""Of the kinds that go the same way as one of which there is a whole flood."""
FAR = 1 << 40
STRANGER = 77

Running = tuple[ClusterWorld, Member, Member, Party]


def running(seed: int = 1) -> Running:
    """World, leader, a follower, and a stranger on the network."""
    world = ClusterWorld(3, seed=seed)
    world.start_all()
    leader = world.await_all()
    world.echo(world.client(), [b"a"] * 5)
    return world, leader, world.followers()[0], Party(world, "stranger")


def lines(member: Member) -> list[str]:
    return [text for text in member.errors.texts if text.startswith("peer: ")]


def ignored(member: Member) -> int:
    return member.module.counters.ignored_messages.get()


def flood(world: ClusterWorld, stranger: Party, member: Member, encoded: bytes, count: int = FLOOD) -> None:
    publication = stranger.publication(member)
    for _ in range(count):
        while publication.offer(encoded) <= 0:
            world.turn()
    world.until(lambda: ignored(member) >= count)


def is_untouched(world: ClusterWorld, term: int) -> bool:
    modules = [member.module for member in world.members.values()]
    return all(module.election is None and module.leadership_term_id == term for module in modules)


def announcement(leader_id: int, term: int) -> cm.NewLeadershipTerm:
    return cm.NewLeadershipTerm(term, -1, -1, -1, term, FAR, FAR, 0, 0, leader_id, 1, 1, False, FAR)


def to_leader(name: str, term: int, leader: int, follower: int) -> Message:
    return {
        "forged id": cm.AppendPosition(term, 96, STRANGER, 0),
        "own id": cm.CommitPosition(term, FAR, leader),
        "canvass of a stranger": cm.CanvassPosition(term, 96, term, STRANGER, 1 << 16),
        "vote of a stranger": cm.Vote(term, term, 96, leader, STRANGER, True),
        "catch-up of a stranger": cm.CatchupPosition(term, 0, STRANGER, "evil:1"),
        "ack of a stranger": cm.TerminationAck(term, FAR, STRANGER),
        "term out of reach": cm.RequestVote(term, FAR, term + MAX_TERM_GAP + 1, follower, 1 << 16),
        "position out of reach": cm.AppendPosition(term, FAR, follower, 0),
        "stale vote request": cm.RequestVote(0, FAR, term, follower, 1 << 16),
        "stale announcement": announcement(follower, term - 1),
        "stale commit": cm.CommitPosition(term - 1, FAR, follower),
        "commit of no leader": cm.CommitPosition(term, FAR, follower),
        "future position": cm.AppendPosition(term + 1, 96, follower, 0),
        "late vote": cm.Vote(term, term, 96, leader, follower, True),
        "catch-up of the future": cm.CatchupPosition(term + 1, 0, follower, "evil:1"),
        "ack without an end": cm.TerminationAck(term, FAR, follower),
        "end to a leader": cm.TerminationPosition(term, FAR),
        "stop to a leader": cm.StopCatchup(term, follower),
        "answer to no challenge": cm.ChallengeResponse(1, -3, b"x"),
        "another stream": cm.SessionKeepAlive(term, 1),
    }[name]


TO_LEADER = (
    "forged id",
    "own id",
    "canvass of a stranger",
    "vote of a stranger",
    "catch-up of a stranger",
    "ack of a stranger",
    "term out of reach",
    "position out of reach",
    "stale vote request",
    "stale announcement",
    "stale commit",
    "commit of no leader",
    "future position",
    "late vote",
    "catch-up of the future",
    "ack without an end",
    "end to a leader",
    "stop to a leader",
    "answer to no challenge",
    "another stream",
)


LATE = (
    "stale vote request",
    "stale announcement",
    "stale commit",
    "future position",
    "late vote",
    "catch-up of the future",
    "stop to a leader",
)
"""What a healthy member sends when it is late."""


def test_a_few_late_messages_are_counted_and_not_told() -> None:
    world, leader, follower, stranger = running()
    term = leader.module.leadership_term_id
    for count, name in enumerate(LATE, 1):
        message = to_leader(name, term, leader.id, follower.id)
        flood(world, stranger, leader, cm.SCHEMA.encode(message), 1)
        world.until(lambda count=count: ignored(leader) == count)  # type: ignore[misc]  # bound now
    assert lines(leader) == []
    assert is_untouched(world, term)


WHOLE = ("forged id", "term out of reach", "stale commit", "future position", "another stream")


@pytest.mark.parametrize("name", TO_LEADER)
def test_ten_thousand_hostile_frames_are_counted_one_by_one_and_told_in_one_line(name: str) -> None:
    world, leader, follower, stranger = running()
    term = leader.module.leadership_term_id
    before, errors = ignored(leader), leader.module.counters.errors.get()
    assert before == 0
    count = FLOOD if name in WHOLE else SMALL_FLOOD
    flood(world, stranger, leader, cm.SCHEMA.encode(to_leader(name, term, leader.id, follower.id)), count)
    world.settle()
    assert ignored(leader) == count
    assert len(lines(leader)) == 1
    assert leader.module.counters.errors.get() == errors + 1
    assert is_untouched(world, term)
    world.echo(world.client(), [b"b"])


@pytest.mark.parametrize("name", ["stale commit", "stale announcement", "forged id"])
def test_a_follower_is_as_deaf_to_them(name: str) -> None:
    world, leader, follower, stranger = running()
    other = next(each for each in world.followers() if each is not follower)
    term = leader.module.leadership_term_id
    notified = follower.module._leader.commit_position
    flood(world, stranger, follower, cm.SCHEMA.encode(to_leader(name, term, leader.id, other.id)), SMALL_FLOOD)
    assert ignored(follower) == SMALL_FLOOD
    assert len(lines(follower)) == 1
    assert follower.module._leader.commit_position == notified
    assert is_untouched(world, term)


def test_a_flood_of_requests_of_backups_holds_few_of_them_and_one_line() -> None:
    world, leader, _, stranger = running()
    publication = stranger.publication(leader)
    encoded = cm.SCHEMA.encode(cm.BackupQuery(1, 108, 768, 0, "aeron:tcp?endpoint=nobody:1", b""))
    for _ in range(FLOOD):
        while publication.offer(encoded) <= 0:
            world.turn()
    world.settle()
    waiting = len(leader.module._backups._waiting)
    assert ignored(leader) + waiting == FLOOD
    assert waiting <= 8
    assert len(lines(leader)) == 1
    world.network.dialling_host = "another"
    other = Party(world, "backup")
    assert isinstance(other.ask(leader, other.query()), cm.BackupResponse | cm.SessionEvent)


def test_bytes_that_are_no_message_are_told_once_however_often_their_sender_comes_back() -> None:
    world, leader, _, stranger = running()
    random = Random(1)
    valid = cm.SCHEMA.encode(cm.CommitPosition(1, 96, 1))
    for number in range(30):
        publication = stranger.driver.add_publication(
            f"aeron:tcp?endpoint=m{leader.id}:2|session-id={1000 + number}", 108
        )
        world.until(lambda publication=publication: publication.is_connected)  # type: ignore[misc]  # bound now
        publication.offer(valid[:9] + random.randbytes(3))
        world.settle()
        publication.close()
    assert ignored(leader) == 30
    assert len(lines(leader)) == 1
    assert leader.is_leader


def test_a_flood_costs_no_memory() -> None:
    world, leader, follower, _ = running()
    term = leader.module.leadership_term_id
    messages = [to_leader(name, term, leader.id, follower.id) for name in TO_LEADER]
    # Only handlers: the transport is measured elsewhere.
    assert leader.module._consensus is not None
    handlers = leader.module._consensus._handlers

    def shout(rounds: int) -> None:
        for number in range(rounds):
            leader.module._messages.peer = f"host-{number}:{number}"
            for message in messages:
                if type(message) in handlers:
                    handlers[type(message)](world.now, message)

    shout(MAX_PAIRS)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        shout(2000)
        assert tracemalloc.get_traced_memory()[0] - before < 64 * 1024
    finally:
        tracemalloc.stop()
    assert len(lines(leader)) <= MAX_PAIRS
    assert is_untouched(world, term)


def test_peers_are_told_apart_by_host_and_messages_by_kind_up_to_a_limit() -> None:
    counters = Counters.in_memory()
    counter = counters.allocate(1, b"", "ignored")
    told: list[str] = []
    messages = IgnoredMessages(counter, lambda _now, kind, text: told.append(f"{kind}: {text}"))
    now = Now(0, 0)
    for peer in ("a:1", "a:2", "b:1", "[::1]:7", ""):
        messages.note(now, peer, "lies", "x" * 5000)
    messages.note(now, "a:3", "more lies", "x")
    assert [text.partition(" not")[0] for text in told] == [
        "peer: lies from a",
        "peer: lies from b",
        "peer: lies from [::1]",
        "peer: lies from nowhere",
        "peer: more lies from a",
    ]
    assert max(map(len, told)) < 600
    for number in range(1000):
        messages.note(now, f"host-{number}:1", "lies", "x")
    assert len(told) == MAX_PAIRS
    assert counter.get() == 1006


def test_what_may_be_late_is_told_when_there_is_more_of_it_than_that_explains() -> None:
    counters = Counters.in_memory()
    counter = counters.allocate(1, b"", "ignored")
    told: list[str] = []
    messages = IgnoredMessages(counter, lambda _now, _kind, text: told.append(text))
    for _ in range(MAX_LATE):
        messages.note(Now(0, 0), "a:1", "late", "x", may_be_late=True)
    assert told == []
    for _ in range(MAX_LATE):
        messages.note(Now(0, 0), "a:1", "late", "x", may_be_late=True)
    assert len(told) == 1
    assert counter.get() == 2 * MAX_LATE


def test_elections_of_healthy_members_are_no_reason_to_complain() -> None:
    world, leader, _, _ = running()
    for _ in range(3):
        world.kill(leader.id)
        world.clients.clear()
        world.await_all()
        world.start(leader.id)
        leader = world.await_all()
        world.advance(500)
    assert [line for member in world.members.values() for line in lines(member)] == []


# --- anything at all of who is no member ---

NUMBERS = st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-2, 8) | st.integers(0, 300).map(lambda each: each * 32)
STRANGERS = st.sampled_from([-1, 3, STRANGER, (1 << 31) - 1, -(1 << 31)])
TEXTS = st.text(max_size=40) | st.sampled_from(["aeron:tcp?endpoint=x:1", "aeron:ipc", "aeron:udp?endpoint=x:1", "x:1"])
SMALL = st.integers(-(1 << 31), (1 << 31) - 1)

OF_STRANGERS: st.SearchStrategy[Message] = st.one_of(
    st.builds(cm.CanvassPosition, NUMBERS, NUMBERS, NUMBERS, STRANGERS, SMALL),
    st.builds(cm.RequestVote, NUMBERS, NUMBERS, NUMBERS, STRANGERS, SMALL),
    st.builds(cm.Vote, NUMBERS, NUMBERS, NUMBERS, st.integers(0, 2), STRANGERS, st.booleans()),
    st.builds(
        cm.NewLeadershipTerm,
        *[NUMBERS] * 9,
        leader_member_id=STRANGERS,
        log_session_id=SMALL,
        app_version=SMALL,
        is_startup=st.booleans(),
        commit_position=NUMBERS,
    ),
    st.builds(cm.AppendPosition, NUMBERS, NUMBERS, STRANGERS, st.integers(0, 255)),
    st.builds(cm.CommitPosition, NUMBERS, NUMBERS, STRANGERS),
    st.builds(cm.CatchupPosition, NUMBERS, NUMBERS, STRANGERS, TEXTS),
    st.builds(cm.StopCatchup, NUMBERS, STRANGERS),
    st.builds(cm.TerminationAck, NUMBERS, NUMBERS, STRANGERS),
    st.builds(cm.ChallengeResponse, NUMBERS, NUMBERS, st.binary(max_size=20)),
    st.builds(cm.BackupQuery, NUMBERS, SMALL, SMALL, NUMBERS, TEXTS, st.binary(max_size=20)),
    st.builds(cm.HeartbeatRequest, NUMBERS, SMALL, TEXTS, st.binary(max_size=20)),
)


@cache
def shared() -> Running:
    """One cluster for all examples."""
    return running()


@settings(max_examples=25, deadline=None)
@given(st.lists(OF_STRANGERS, min_size=1, max_size=20), st.booleans())
def test_whatever_a_stranger_says_in_the_name_of_no_member_changes_nothing(
    messages: list[Message], to_leader: bool
) -> None:
    world, leader, follower, stranger = shared()
    member = leader if to_leader else follower
    term, commit = leader.module.leadership_term_id, leader.module.commit_position
    positions = {each.id: (each.leadership_term_id, each.log_position) for each in leader.module.members.values()}
    for message in messages:
        stranger.send(member, message)
    world.advance(100)
    assert is_untouched(world, term)
    assert all(each.ended is None for each in world.members.values())
    assert leader.module.commit_position == commit
    assert {e.id: (e.leadership_term_id, e.log_position) for e in leader.module.members.values()} == positions
    assert len(lines(member)) <= 40


# --- a forged end ---


@pytest.mark.parametrize("ahead", [1 << 20, 1 << 50])
def test_a_forged_end_does_not_keep_a_follower_from_missing_its_leader(ahead: int) -> None:
    world, leader, _, stranger = running()
    term, followers = leader.module.leadership_term_id, world.followers()
    timeouts = world.settings.cluster.timeouts
    forged = cm.TerminationPosition(term, leader.module.commit_position + ahead)
    for follower in followers:
        stranger.send(follower, forged)
    world.settle()
    assert all(follower.module._termination.is_pending for follower in followers)
    world.kill(leader.id)
    begin_ns = world.ns
    world.until(lambda: world.leader() is not None)
    new_leader = world.await_leader()
    assert new_leader.module.leadership_term_id > term
    patience_ns = timeouts.leader_heartbeat_ns + timeouts.termination_ns + timeouts.startup_canvass_ns
    assert world.ns - begin_ns <= patience_ns
    assert not any(follower.module._termination.is_pending for follower in followers)
    world.clients.clear()
    world.echo(world.client(), [b"b"])
