"""The values that an archive's client receives: the outcome of a request, and errors that follow an outcome."""

from dataclasses import dataclass, field
from typing import NamedTuple

from upheaval_node.protocol import archive_messages as am
from upheaval_node.types import NEVER_NS, NULL_VALUE


@dataclass(slots=True, eq=False)
class PendingCall:
    """A request in flight. Once `done`, `error` is None or the reason of the failure, with the archive's `error_code`.

    `relevant_id` is the archive's answer: a subscription, replay session or replication id, a position or a count.
    Listings fill `descriptors` or `subscriptions`; fewer than requested are not an error. A time-out or a lost archive
    has error code -1.
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
        """Complete the call with a failure."""
        self.done = True
        self.error = text
        self.error_code = code


class LateError(NamedTuple):
    """An error about a recording or replay whose request had already succeeded."""

    correlation_id: int
    error_code: int
    text: str
