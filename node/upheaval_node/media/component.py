"""The media driver for one component of its process: events of what the component adds ring the component's bell.

A member that runs its components together runs an agent only when its bell was rung or its deadline has come. This
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
        """Taken from the driver's count, so that no two components of the process get the same number."""
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
        """Does nothing: the driver has its own duty cycle."""
        return 0

    def next_deadline_ns(self) -> int:
        """Never: the driver has its own deadlines."""
        return NEVER_NS

    def close(self) -> None:
        """Does nothing to the driver, which others use."""
