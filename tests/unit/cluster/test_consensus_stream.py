"""The consensus stream: every message reaches the handler of its name; bytes that are none harm no other message."""

import pytest
from hypothesis import given, settings, strategies as st

from support.cluster_parts import PartsWorld
from upheaval_node.cluster.consensus_adapter import ConsensusAdapter
from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.describe import trace_fields
from upheaval_node.protocol.message import Message
from upheaval_node.types import Now

MESSAGES: list[Message] = [
    cm.CanvassPosition(1, 64, 2, 1, 65536),
    cm.RequestVote(1, 64, 3, 1, 65536),
    cm.Vote(3, 1, 64, 0, 1, True),
    cm.NewLeadershipTerm(1, 2, 64, 96, 3, 96, 128, 0, 1000, 1, 77, 1, True, 64),
    cm.AppendPosition(3, 128, 1, 0),
    cm.CommitPosition(3, 128, 1),
    cm.CatchupPosition(3, 0, 1, "m1:4"),
    cm.StopCatchup(3, 0),
    cm.TerminationPosition(3, 256),
    cm.TerminationAck(3, 256, 1),
    cm.ChallengeResponse(5, 6, b"x"),
    cm.BackupQuery(5, 102, 768, 64, "aeron:tcp?endpoint=b:1", b""),
    cm.HeartbeatRequest(5, 102, "aeron:tcp?endpoint=b:1", b""),
    cm.StandbySnapshot(correlation_id=5, version=768, response_stream_id=102),
]


class Heard:
    """A handler that keeps what it gets under the name of the method."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Message]] = []

    def __getattr__(self, name: str) -> object:
        if not name.startswith("on_"):
            raise AttributeError(name)
        return lambda now, message: self.calls.append((name, message))


def snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)


@pytest.mark.pure
def test_every_message_reaches_the_method_of_its_name_and_is_traced_on_both_ends() -> None:
    world = PartsWorld()
    heard = Heard()
    adapter = ConsensusAdapter(world.context, heard)  # type: ignore[arg-type]  # it answers to every name
    publication = world.client_driver().add_publication("aeron:tcp?endpoint=m0:2", 108)
    world.settle()
    for message in MESSAGES:
        assert publication.offer(cm.SCHEMA.encode(message)) > 0
    world.settle()
    while adapter.poll(world.now):
        world.settle()
    assert heard.calls == [(f"on{snake(type(message).__name__)}", message) for message in MESSAGES]
    traced = world.trace.named("receive")
    assert [event["message"] for event in traced] == [type(message).__name__ for message in MESSAGES]
    assert traced[3]["commit_position"] == 64


def test_a_send_is_traced_before_it_happens_and_says_whom_it_goes_to() -> None:
    world = PartsWorld()
    other = world.client_driver().add_subscription("aeron:tcp?endpoint=m1:2", 108)
    publisher = ConsensusPublisher(world.context)
    assert not publisher.send(world.now, 1, MESSAGES[4])
    world.until_true(lambda: bool(other.images))
    assert publisher.send(world.now, 1, MESSAGES[4])
    assert not publisher.send(world.now, 2, MESSAGES[4])
    assert world.trace.named("send") == [{"to": 1, **trace_fields(MESSAGES[4])}]


def test_all_scalar_fields_are_traced() -> None:
    for message in MESSAGES:
        names = {*message.__match_args__}
        assert set(trace_fields(message)) - {"message"} == names - {"snapshots"}


@pytest.mark.pure
@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=200), st.integers(0, len(MESSAGES) - 1), st.integers(0, 60))
def test_hostile_bytes_cost_their_sender_the_image_and_nobody_else(junk: bytes, which: int, cut: int) -> None:
    world = PartsWorld()
    heard = Heard()
    adapter = ConsensusAdapter(world.context, heard)  # type: ignore[arg-type]  # it answers to every name
    good = world.client_driver().add_publication("aeron:tcp?endpoint=m0:2", 108)
    bad = world.client_driver().add_publication("aeron:tcp?endpoint=m0:2", 108)
    world.settle()
    encoded = cm.SCHEMA.encode(MESSAGES[which])
    bad.offer(encoded[: max(len(encoded) - cut, 1)] + junk if cut else junk)
    good.offer(cm.SCHEMA.encode(MESSAGES[5]))
    for _ in range(4):
        world.settle()
        adapter.poll(world.now)
    assert ("on_commit_position", MESSAGES[5]) in heard.calls
    assert good.is_connected


@pytest.mark.pure
def test_a_handler_failure_leaves_the_next_message_deliverable() -> None:
    world = PartsWorld()

    class Fails(Heard):
        def on_vote(self, now: Now, message: cm.Vote) -> None:
            raise ValueError("the handler failed")

    heard = Fails()
    adapter = ConsensusAdapter(world.context, heard)  # type: ignore[arg-type]  # it answers to every name
    publication = world.client_driver().add_publication("aeron:tcp?endpoint=m0:2", 108)
    world.settle()
    publication.offer(cm.SCHEMA.encode(MESSAGES[2]))
    publication.offer(cm.SCHEMA.encode(MESSAGES[5]))
    world.settle()
    failures = 0
    for _ in range(3):
        try:
            adapter.poll(world.now)
        except ValueError:
            failures += 1
    assert failures == 1
    assert heard.calls == [("on_commit_position", MESSAGES[5])]
