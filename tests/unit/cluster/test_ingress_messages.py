"""Each message of a client comes to where it belongs, with all its fields."""

import pytest

from support.cluster_parts import TERM, PartsWorld
from unit.cluster.test_ingress import MAX_BLOCK
from upheaval_node.cluster.ingress import IngressAdapter
from upheaval_node.cluster.session import ClusterSession
from upheaval_node.media.api import Image
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import with_values
from upheaval_node.types import Now


class Heard:
    """Keeps what it is given. Implements `IngressHandler`."""

    def __init__(self) -> None:
        self.messages: list[object] = []
        self.open: dict[int, ClusterSession] = {}

    def is_of(self, session_id: int, image: Image) -> bool:
        return True

    def on_session_message(self, now: Now, term_id: int, session_id: int, payload: Buffer) -> bool:
        self.messages.append((term_id, session_id, bytes(payload)))
        return True

    def on_connect_request(self, now: Now, request: cm.SessionConnectRequest, image: Image) -> None:
        self.messages.append(request)

    def on_keep_alive(self, now: Now, message: cm.SessionKeepAlive, image: Image) -> None:
        self.messages.append(message)

    def on_close_request(self, now: Now, message: cm.SessionCloseRequest) -> None:
        self.messages.append(message)

    def on_challenge_response(self, now: Now, message: cm.ChallengeResponse) -> None:
        self.messages.append(message)

    def on_admin_request(self, now: Now, request: cm.AdminRequest) -> None:
        self.messages.append(request)

    def on_image_lost(self, image: Image) -> None:
        """No session is there to be closed."""


CONNECT = cm.SessionConnectRequest(
    3, 102, 768, response_channel="aeron:tcp?endpoint=c:1", encoded_credentials=b"secret", client_info="name=x"
)


@pytest.mark.parity("IA-01")
@pytest.mark.parametrize(
    "message",
    [
        CONNECT,
        with_values(CONNECT, client_info="", encoded_credentials=b""),
        cm.SessionKeepAlive(TERM, 7),
        cm.SessionCloseRequest(TERM, 8),
        cm.ChallengeResponse(4, 9, b"answer"),
        cm.AdminRequest(TERM, 10, 5, cm.AdminRequestType.SNAPSHOT),
    ],
    ids=lambda message: f"{type(message).__name__}",
)
def test_a_message_comes_with_all_its_fields(message: cm.SessionKeepAlive) -> None:
    world, heard = PartsWorld(), Heard()
    ingress = IngressAdapter(world.context, heard, max_block_length=MAX_BLOCK, max_message_length=8192)
    publication = world.client_driver().add_publication("aeron:tcp?endpoint=m0:1", 101)
    world.settle()
    publication.offer(cm.SCHEMA.encode(message))
    world.settle()
    ingress.poll(world.now, world.leader.active_log, TERM)
    assert heard.messages == [message]
