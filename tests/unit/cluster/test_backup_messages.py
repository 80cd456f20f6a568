"""Messages of backups and standbys, which are not there yet: reported, not answered, and the cluster goes on."""

import pytest

from support.cluster_world import ClusterWorld
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.codec import Message

CHANNEL = "aeron:tcp?endpoint=backup:1"
MESSAGES: list[Message] = [
    cm.BackupQuery(5, 108, 1 << 16, 0, CHANNEL, b""),
    cm.HeartbeatRequest(6, 108, CHANNEL, b""),
    cm.StandbySnapshot(correlation_id=7, version=1 << 16, response_stream_id=108, response_channel=CHANNEL),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_what_is_not_there_yet_is_reported_and_not_answered(message: Message) -> None:
    world = ClusterWorld(3)
    world.start_all()
    leader = world.await_all()
    sender = leader.driver.add_publication(f"aeron:tcp?endpoint=m{leader.id}:2", 108)
    world.until(lambda: sender.is_connected)
    reports = len(leader.errors.texts)
    sent = len(leader.trace.named("send"))
    assert sender.offer(cm.SCHEMA.encode(message)) > 0
    world.settle()
    (text,) = leader.errors.texts[reports:]
    assert str(message.correlation_id) in text  # type: ignore[attr-defined]  # each of these has one
    assert {each["message"] for each in leader.trace.named("send")[sent:]} <= {"CommitPosition"}
    world.echo(world.client(), [b"x"])
