"""A replay of a part of the member's own log recording: the module and its services read it to the end.

Source: Aeron Cluster, local log replay. Knows nothing of why the part is replayed.
"""

from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.whole_recordings import stream_session_id
from upheaval_node.cluster.log_adapter import LogAdapter
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.service_proxy import ServiceProxy
from upheaval_node.errors import PeerError, TimeoutExpired
from upheaval_node.media.api import Image, Subscription
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import REPLAY_STREAM_ID
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import NULL_POSITION, ClusterRole, Now, Position


class LocalLogReplay:
    """Implements `log_access.LogTransfer`. All that it reads is committed."""

    def __init__(
        self,
        context: ModuleContext,
        standing: Standing,
        services: ServiceProxy,
        adapter: LogAdapter,
        *,
        recording_id: int,
        start_position: Position,
        stop_position: Position,
    ) -> None:
        self._context = context
        self._standing = standing
        self._services = services
        self._adapter = adapter
        self._start_position = start_position
        self._stop_position = stop_position
        self._subscription: Subscription | None = None
        self._call: PendingCall = context.archive.replay(
            recording_id,
            start_position,
            stop_position - start_position,
            str(Channel("ipc", {"alias": "log-replay"})),
            REPLAY_STREAM_ID,
        )
        self._steps: Steps[None] | None = None
        self._was_read = False
        self.is_closed = False

    @property
    def position(self) -> Position:
        """The position read so far, or the start of the replay while nothing is read."""
        if not self._adapter.is_attached or self._adapter.position == NULL_POSITION:
            return self._start_position
        return Position(self._adapter.position)

    @property
    def is_done(self) -> bool:
        """Whether all of it was read, and no snapshot is in progress."""
        has_joined = self._steps is not None and self._steps.is_done
        return has_joined and self.position >= self._stop_position and not self._standing.is_taking_snapshot

    def do_work(self, now: Now) -> int:
        """Wait for the image and the services, then read. Raises `PeerError` when the replay ends too early."""
        if self._steps is None:
            self._steps = Steps(self._join(now))
        if not self._steps.is_done:
            work = int(self._steps.poll(now))
            # Services join only a live stream. They would wait for a stream that the archive ended at a damaged frame.
            if self._adapter.is_attached and self._adapter.is_image_closed:
                self._check_complete()
            return work
        if not self._standing.reads_log:
            return 0
        work = self._adapter.poll(now, self._stop_position)
        position = self._adapter.position
        self._context.published.commit_position.set_max(position)
        if work == 0 and self._adapter.is_image_closed:
            self._check_complete()
        return work

    def _check_complete(self) -> None:
        if self.position < self._stop_position:
            raise PeerError(f"log replay closed at {self.position} before {self._stop_position}")

    def close(self) -> None:
        """Stop reading. `release` ends the stream and the archive's replay, once no service waits for them."""
        if not self.is_closed:
            self.is_closed = True
            self._was_read = self.position >= self._stop_position
            if self._steps is not None:
                self._steps.close()
            self._adapter.detach()

    def release(self) -> bool:
        """End the archive's replay and the subscription. Returns False while the archive has not answered the
        request.
        """
        if not self._call.done:
            return False
        if self._call.error is None and not self._was_read:
            self._context.archive.stop_replay(self._call.relevant_id)
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        return True

    def _join(self, now: Now) -> StepGenerator[None]:
        deadline_ns = now.ns + self._context.archive.timeout_ns
        call = self._call
        while not call.done:
            now = yield
        if call.error is not None:
            raise PeerError(f"log replay from {self._start_position} failed: {call.error}")
        session_id = stream_session_id(call.relevant_id)
        channel = Channel("ipc", {"session-id": str(session_id), "alias": "log-replay"})
        self._subscription = self._context.media.add_subscription(str(channel), REPLAY_STREAM_ID)
        image: Image | None
        while (image := self._subscription.image(session_id)) is None:
            if now.ns >= deadline_ns:
                raise TimeoutExpired("no image of the log replay")
            now = yield
        if image.join_position != self._start_position:
            raise PeerError(f"log replay begins at {image.join_position} instead of {self._start_position}")
        self._adapter.attach(image)
        yield from self._services.join_log(
            log_position=self._start_position,
            max_log_position=self._stop_position,
            session_id=session_id,
            stream_id=REPLAY_STREAM_ID,
            channel=str(channel),
            is_startup=True,
            role=ClusterRole.FOLLOWER,
        )
