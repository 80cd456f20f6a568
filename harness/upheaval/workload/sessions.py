"""What a load needs of a client session, of any system."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from upheaval_node.errors import NodeError
from upheaval_node.ports import Buffer
from upheaval_node.types import Now, SessionId, TermId


class Session(Protocol):
    """A client session with the cluster, as `upheaval_node.client.session.ClusterClient` is one."""

    @property
    def is_connected(self) -> bool:
        """Whether operations may be offered."""

    @property
    def is_closed(self) -> bool:
        """Whether it has ended; then another one is opened."""

    leadership_term_id: TermId
    opened_term_id: TermId
    session_id: SessionId
    error: NodeError | None

    def do_work(self, now: Now) -> int:
        """A duty cycle: connect, follow the leader, keep the session alive."""

    def next_deadline_ns(self) -> int:
        """When it must have a turn without input."""

    def poll(self, handler: Callable[[int, Buffer], None], limit: int = ...) -> int:
        """Deliver what the service sent; the handler takes the position in the egress and the payload."""

    def offer(self, *parts: Buffer) -> int:
        """Send one message; a positive position, or a negative result when it was not taken."""

    def close(self) -> None:
        """Tell the cluster, if that is possible, and end."""


@runtime_checkable
class SessionThatGivesBack(Session, Protocol):
    """A session that may take a message and report later that no member had it."""

    def given_back(self) -> Sequence[int]:
        """What `offer` returned for messages that are in no log and will be in none; each is returned once."""
