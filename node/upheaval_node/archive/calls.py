"""What a client of an archive receives: the outcome of a request, and errors that come after one. Values only."""

from dataclasses import dataclass, field
from typing import NamedTuple

from upheaval_node.protocol import archive_messages as am
from upheaval_node.types import NEVER_NS, NULL_VALUE


@dataclass(slots=True, eq=False)
class PendingCall:
    """A request on its way. When `done`, `error` is None or says why it failed, with the archive's `error_code`.

    `relevant_id` is what the archive answers: a subscription, replay session or replication id, a position, a count.
    Listings fill `descriptors` or `subscriptions`; fewer than asked for is no error. A time-out or a lost archive has
    error code -1.
    """

    correlation_id: int
    done: bool = False
    relevant_id: int = NULL_VALUE
    error: str | None = None
    error_code: int = NULL_VALUE
    descriptors: list[am.RecordingDescriptor] = field(default_factory=list)
    subscriptions: list[am.RecordingSubscriptionDescriptor] = field(default_factory=list)
    wanted_descriptors: int = 0
    deadline_ns: int = NEVER_NS

    def fail(self, text: str, code: int = NULL_VALUE) -> None:
        """Fill in a failure: the call is done."""
        self.done = True
        self.error = text
        self.error_code = code


class LateError(NamedTuple):
    """An error that the archive sent for something that had been answered before: a recording, a replay."""

    correlation_id: int
    error_code: int
    text: str
