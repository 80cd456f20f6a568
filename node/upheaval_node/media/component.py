"""The media driver as one component of its process sees it: what the component adds rings the component's bell.

A member that runs its components together turns an agent only when its bell was rung or its deadline has come. This
module knows no component and no runtime.
"""

from upheaval_node.bell import Bell
from upheaval_node.media.api import ImageHandler, Subscription
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.publication import StreamPublication
from upheaval_node.types import NEVER_NS, Now


class ComponentMedia:
    """Implements `api.Media` on a driver that its owner runs and closes."""

    def __init__(self, driver: MediaDriver) -> None:
        self.bell = Bell()
        self._driver = driver

    @property
    def is_closed(self) -> bool:
        """Whether the driver is closed."""
        return self._driver.is_closed

    def next_correlation_id(self) -> int:
        """From the driver's count, so that no two components of the process get the same."""
        return self._driver.next_correlation_id()

    def add_publication(self, channel: str, stream_id: int, *, session_id: int | None = None) -> StreamPublication:
        """As `MediaDriver.add_publication`."""
        publication = self._driver.add_publication(channel, stream_id, session_id=session_id)
        publication.bell = self.bell
        return publication

    def add_subscription(
        self,
        channel: str,
        stream_id: int,
        *,
        on_available: ImageHandler | None = None,
        on_unavailable: ImageHandler | None = None,
    ) -> Subscription:
        """As `MediaDriver.add_subscription`."""
        return self._driver.add_subscription(
            channel, stream_id, on_available=on_available, on_unavailable=on_unavailable, bell=self.bell
        )

    def do_work(self, now: Now) -> int:  # noqa: ARG002 - the driver has its own turns
        """Nothing: the driver has its own turns."""
        return 0

    def next_deadline_ns(self) -> int:
        """Never: the driver has its own deadlines."""
        return NEVER_NS

    def close(self) -> None:
        """The driver stays: others use it."""
