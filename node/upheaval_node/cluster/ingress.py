"""Reads the messages of clients: session messages go to the log, all others to the sessions.

On the leader, session messages are taken from each image a block at a time and go to the log in runs. All other
messages, and fragmented ones, are handled one by one, in their order among the rest. A message is consumed only when
the log has taken it. A follower only answers connect requests. Bytes that are not a message cost their sender the
image; messages of another schema go to an extension. Knows nothing of elections.
"""

from typing import Final, Protocol

from upheaval_node.cluster.ingress_block import take_run
from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.session import ClusterSession
from upheaval_node.errors import DecodeError
from upheaval_node.media.api import Block, Image
from upheaval_node.ports import Buffer
from upheaval_node.protocol import cluster_messages as cm, session_header
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import INGRESS_STREAM_ID
from upheaval_node.protocol.fragments import FragmentAssembler
from upheaval_node.protocol.frames import TYPE_PAD
from upheaval_node.types import FRAME_HEADER_LENGTH, NOT_YET, NULL_VALUE, Now, TermId

MESSAGE_HEADER_LENGTH: Final = 8
SOMEBODY_ELSES: Final = "messages for a session of another client"
_NO_SESSIONS: Final[dict[int, ClusterSession]] = {}


class IngressHandler(Protocol):
    """Takes messages one by one. The sessions implement it."""

    @property
    def open(self) -> dict[int, ClusterSession]:
        """The open sessions by id: only their messages go to the log."""

    def is_of(self, session_id: int, image: Image) -> bool:
        """Whether the sender of an image may speak for a session, if there is such a session."""

    def on_session_message(self, now: Now, term_id: TermId, session_id: int, payload: Buffer) -> bool:
        """Take a session message. Returns False when the message must be offered again."""

    def on_connect_request(self, now: Now, request: cm.SessionConnectRequest, image: Image) -> None:
        """Open a session, or on a follower redirect the client to the leader."""

    def on_keep_alive(self, now: Now, message: cm.SessionKeepAlive, image: Image) -> None:
        """Note that the client is alive."""

    def on_close_request(self, now: Now, message: cm.SessionCloseRequest) -> None:
        """End the session at the client's request."""

    def on_challenge_response(self, now: Now, message: cm.ChallengeResponse) -> None:
        """Take the answer of a challenged client."""

    def on_admin_request(self, now: Now, request: cm.AdminRequest) -> None:
        """Take a request for a snapshot, if the client is authorised for it."""

    def on_image_lost(self, image: Image) -> None:
        """A client's stream is gone, and with it all that was not read."""


class IngressExtension(Protocol):
    """Takes the clients' messages of other schemas than the cluster's.

    Called only on the leader, in the order of all messages of the client. An exception ends the member's turn, so the
    extension must validate each message, which is exactly what a client sent. Source: Aeron Cluster, module extension.
    """

    def on_ingress_extension_message(
        self, now: Now, schema_id: int, template_id: int, message: Buffer, image: Image
    ) -> None:
        """Take one message with its header. `image` is the client's stream."""


class _Source:
    """The state of one image: a partly received message, and a message that the log refused for now."""

    def __init__(self, max_message_length: int) -> None:
        self.assembler = FragmentAssembler(max_message_length)
        self.refused_end = NULL_VALUE
        self.refused: Buffer = b""


class IngressAdapter:
    """One ingress subscription, open from the end of an election to the start of the next.

    One poll takes at most `max_block_length` bytes from each image, in any number of messages: `ingress_fragment_limit`
    counts full-sized frames. No message may be longer than `max_message_length`, the limit of the log, because the
    limit of a client's stream is the client's choice.
    """

    def __init__(
        self,
        context: ModuleContext,
        handler: IngressHandler,
        *,
        max_block_length: int,
        max_message_length: int,
        extension: IngressExtension | None = None,
    ) -> None:
        self._context = context
        self._handler = handler
        self._extension = extension
        self._is_leader = False
        self._sources: dict[int, _Source] = {}
        self._max_block_length = max_block_length
        self._now = NOT_YET
        self._turn = 0
        self._faults = context.ingress_faults
        self._max_message_length = max_message_length
        channel = Channel("tcp", {"endpoint": context.own.endpoints.ingress, "alias": "ingress"})
        self._subscription = context.media.add_subscription(
            str(channel), INGRESS_STREAM_ID, on_unavailable=self._on_unavailable
        )

    def close(self) -> None:
        """Close the subscription; the clients' streams end."""
        self._subscription.close()
        self._sources.clear()

    def poll(self, now: Now, log: LogPublisher | None, term_id: TermId) -> int:
        """Read from every image, each time beginning with another one. `log` is None on a follower."""
        self._now = now
        self._is_leader = log is not None
        images = self._subscription.images
        if not images:
            return 0
        self._turn = first = (self._turn + 1) % len(images)
        work = 0
        for image in [*images[first:], *images[:first]]:
            block = image.next_block(max_length=self._max_block_length)
            if block is not None:
                work += self._take_block(image, block, log, term_id)
        return work

    def _take_block(self, image: Image, block: Block, log: LogPublisher | None, term_id: TermId) -> int:
        source = self._sources.get(image.correlation_id)
        if source is None:
            source = self._sources[image.correlation_id] = _Source(self._max_message_length)
        data = block.data
        offset = consumed = 0
        try:
            while offset < len(data):
                stop = self._take_messages(image, data, offset, log, term_id)
                if stop is None:
                    break
                offset = consumed = stop
                if offset < len(data):
                    if not self._take_frame(image, source, block, offset):
                        break
                    offset = consumed = self._after_frame(data, offset)
        except DecodeError as error:
            self._report(image, str(error))
            image.reject(str(error))
            return 1
        if consumed and not image.is_closed:
            image.consume(block.end if consumed >= len(data) else block.start + consumed)
        return int(consumed > 0)

    def _take_messages(
        self, image: Image, data: memoryview, offset: int, log: LogPublisher | None, term_id: TermId
    ) -> int | None:
        """Append a run of session messages to the log. Returns where the run ends, or None when the log refused it."""
        sessions = _NO_SESSIONS if log is None else self._handler.open
        mtu = data.nbytes if log is None else log.mtu
        time = self._context.cluster_time(self._now)
        run = take_run(data, offset, term_id, sessions, time, mtu)
        if not all(sessions[session_id].is_spoken_for_by(image) for session_id in run.session_ids):
            self._report(image, SOMEBODY_ELSES)
            own = {number: session for number, session in sessions.items() if session.is_spoken_for_by(image)}
            run = take_run(data, offset, term_id, own, time, mtu)
        if run.message_count:
            assert log is not None
            if not log.append_frames(run.frames, run.message_count):
                return None
            for session_id in run.session_ids:
                sessions[session_id].time_of_last_activity_ns = self._now.ns
        return run.stop

    @staticmethod
    def _after_frame(data: memoryview, offset: int) -> int:
        length = int.from_bytes(data[offset : offset + 4], "little", signed=True)
        return min(offset + ((length + 31) & -32), len(data))

    def _take_frame(self, image: Image, source: _Source, block: Block, offset: int) -> bool:
        """Handle one frame that the fast path left. Returns False when its message must be offered again."""
        data = block.data
        words = data[offset : offset + FRAME_HEADER_LENGTH].cast("i")
        length, kind = words[0], words[1]
        if kind >> 16 == TYPE_PAD:
            return True
        start = block.start + offset
        end = start + ((length + 31) & -32)
        if source.refused_end == end:
            message: Buffer | None = source.refused
        else:
            payload = data[offset + FRAME_HEADER_LENGTH : offset + length]
            too_long = source.assembler.too_long
            message = source.assembler.on_fragment(kind >> 8 & 0xFF, payload, start, end)
            if source.assembler.too_long != too_long:
                self._report_too_long(image)
        source.refused_end = NULL_VALUE
        source.refused = b""
        if message is None or self._take_message(image, message):
            return True
        source.refused_end = end
        source.refused = message
        return False

    def _take_message(self, image: Image, message: Buffer) -> bool:
        now = self._now
        handler = self._handler
        if len(message) >= MESSAGE_HEADER_LENGTH and self._is_foreign(message, image):
            return True
        decoded = cm.SCHEMA.decode_with_end(message)
        if decoded is None:
            return True
        body, end = decoded
        match body:
            case (
                cm.SessionMessageHeader()
                | cm.SessionKeepAlive()
                | cm.SessionCloseRequest()
                | cm.ChallengeResponse()
                | cm.AdminRequest()
            ) if not handler.is_of(body.cluster_session_id, image):
                self._report(image, SOMEBODY_ELSES)
            case cm.SessionMessageHeader():
                payload = memoryview(message)[end:]
                return self._take_long_message(image, body, payload)
            case cm.SessionConnectRequest():
                handler.on_connect_request(now, body, image)
            case cm.SessionKeepAlive():
                handler.on_keep_alive(now, body, image)
            case cm.SessionCloseRequest():
                handler.on_close_request(now, body)
            case cm.ChallengeResponse():
                handler.on_challenge_response(now, body)
            case cm.AdminRequest():
                handler.on_admin_request(now, body)
            case _:
                pass
        return True

    def _is_foreign(self, message: Buffer, image: Image) -> bool:
        """Whether the message is of another schema. It then goes to the extension, or is only reported."""
        schema_id = int.from_bytes(message[4:6], "little")
        if schema_id == cm.SCHEMA.table.schema_id:
            return False
        if self._extension is None:
            self._report(image, f"schema {schema_id}, which has no extension")
        elif self._is_leader:
            template_id = int.from_bytes(message[2:4], "little")
            self._extension.on_ingress_extension_message(self._now, schema_id, template_id, message, image)
        return True

    def _take_long_message(self, image: Image, header: cm.SessionMessageHeader, payload: Buffer) -> bool:
        if session_header.LENGTH + len(payload) > self._max_message_length:
            self._report_too_long(image)
            return True
        return self._handler.on_session_message(
            self._now, header.leadership_term_id, header.cluster_session_id, payload
        )

    def _report_too_long(self, image: Image) -> None:
        limit = self._max_message_length
        self._report(image, f"a message of more than {limit} bytes is too long for the log")

    def _report(self, image: Image, text: str) -> None:
        """Count a client's fault, and report it once per client and kind."""
        self._context.published.errors.increment()
        self._faults.note(self._now, image.source_identity, text)

    def _on_unavailable(self, image: Image) -> None:
        self._sources.pop(image.correlation_id, None)
        self._handler.on_image_lost(image)
