"""The log as a follower receives it: one stream, fed by the leader's live log and, while catching up, by a replay.

Knows nothing of elections but the order of the calls.
"""

from collections.abc import Callable

from upheaval_node.cluster.log_adapter import LogAdapter
from upheaval_node.cluster.log_recording import LogFormat, LogRecording, log_channel, publication_channel
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.service_proxy import ServiceProxy
from upheaval_node.errors import PeerError
from upheaval_node.media.api import Image, Publication, Subscription
from upheaval_node.protocol.channel import Channel, split_endpoint
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.steps import StepGenerator
from upheaval_node.types import NULL_POSITION, NULL_VALUE, ClusterRole, Position


class FollowerLog:
    """The subscription to the leader's log, with a destination for the live log and one for a replay."""

    def __init__(
        self, context: ModuleContext, recording: LogRecording, services: ServiceProxy, adapter: LogAdapter
    ) -> None:
        self._context = context
        self._recording = recording
        self._services = services
        self._adapter = adapter
        self._subscription: Subscription | None = None
        self._stand_in: Publication | None = None
        self._session_id = 0
        self._catchup: str | None = None
        self._live: str | None = None

    def open(self, session_id: int, log_position: Position) -> None:
        """Subscribe to the leader's stream, to be joined at `log_position`. Without a destination, nothing
        arrives yet.
        """
        self.close()
        channel = Channel(
            "tcp",
            {
                "control-mode": "manual",
                "session-id": str(session_id),
                **{k: str(v) for k, v in self._recording.format.position_parameters(log_position).items()},
                "rejoin": "false",
                "alias": "log",
            },
        )
        self._session_id = session_id
        self._subscription = self._context.media.add_subscription(str(channel), LOG_STREAM_ID)

    @property
    def is_open(self) -> bool:
        """Whether there is a subscription to a leader's stream, with or without an image."""
        return self._subscription is not None

    @property
    def image(self) -> Image | None:
        """The image of the leader's stream, None before it arrives."""
        return None if self._subscription is None else self._subscription.image(self._session_id)

    @property
    def received_position(self) -> int:
        """The position up to which the log was received, -1 without an image."""
        image = self.image
        return NULL_POSITION if image is None else image.received_position

    # --- where it comes from ---

    def add_catchup_destination(self) -> None:
        """Listen for the replay that the leader will be asked for."""
        self._catchup = self._add(self._context.own.endpoints.catchup)

    def add_live_destination(self) -> None:
        """Listen for the leader's live log."""
        self._live = self._add(self._context.own.endpoints.log)

    @property
    def has_live_destination(self) -> bool:
        """Whether the live log has a destination."""
        return self._live is not None

    @property
    def has_catchup_destination(self) -> bool:
        """Whether the replay has a destination. It is removed once the leader ends the replay or the live log takes
        over.

        The live log is accepted only where it meets the received log; from then on the replay adds nothing.
        """
        # Differs from Aeron (docs/protocol.md, E15): Aeron waits for StopCatchup.
        if self._catchup is not None and self._live is not None:
            image = self.image
            if image is not None and self._context.rules.has_caught_up(image.active_transport_count):
                self.remove_catchup_destination()
        return self._catchup is not None

    def remove_catchup_destination(self) -> None:
        """Stop listening for the replay. What it delivered is kept."""
        if self._catchup is not None and self._subscription is not None:
            self._subscription.remove_destination(self._catchup)
        self._catchup = None

    @property
    def catchup_endpoint(self) -> str | None:
        """The endpoint of the catch-up destination for the leader, None while the port is not known."""
        endpoint = self._context.own.endpoints.catchup
        host, port = split_endpoint(endpoint)
        if port != 0:
            return endpoint
        resolved = None if self._subscription is None else self._subscription.resolved_endpoint
        return None if resolved is None else f"{host}:{split_endpoint(resolved)[1]}"

    # --- joining ---

    def join(self, log_position: Position, name_term: Callable[[], None], *, is_startup: bool) -> StepGenerator[None]:
        """Wait for the image, record it, read it, and have the services join it.

        `name_term` is called once: before an existing recording is extended, or as soon as a log has its first
        recording. Raises `PeerError` when the image joins at another position, or the log is not recorded.
        """
        while (image := self.image) is None:
            yield
        if image.join_position != log_position:
            raise PeerError(f"joined the log at {image.join_position} instead of {log_position}")
        log_format = LogFormat(image.initial_term_id, image.term_length, image.mtu)
        has_recording = self._recording.recording_id != NULL_VALUE
        if has_recording:
            name_term()
        yield from self._recording.start(self._session_id, log_format)
        if not has_recording:
            name_term()
        self._adapter.attach(image)
        yield from self._services.join_log(
            log_position=log_position,
            session_id=self._session_id,
            channel=str(log_channel(self._session_id).as_spy()),
            is_startup=is_startup,
            role=ClusterRole.FOLLOWER,
        )

    def remove_destinations(self) -> None:
        """Stop receiving. What was received is kept."""
        self.remove_catchup_destination()
        if self._live is not None and self._subscription is not None:
            self._subscription.remove_destination(self._live)
        self._live = None

    def replace_for_services(self, position: int) -> None:
        """Replace the leader's stream by an empty one for the services that have yet to join at `position`.

        Nothing of the leader's stream may be left by the time the services look for it.
        """
        self.close()
        channel = str(publication_channel(self._recording.format, position))
        self._stand_in = self._context.media.add_publication(channel, LOG_STREAM_ID, session_id=self._session_id)

    def close(self) -> None:
        """Leave the leader's log."""
        stand_in, self._stand_in = self._stand_in, None
        if stand_in is not None:
            stand_in.close()
        subscription, self._subscription = self._subscription, None
        self._catchup = self._live = None
        if subscription is not None:
            subscription.close()

    def _add(self, endpoint: str) -> str:
        assert self._subscription is not None
        channel = str(Channel("tcp", {"endpoint": endpoint}))
        self._subscription.add_destination(channel)
        return channel
