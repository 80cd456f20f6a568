"""The interface of a client session that a load needs, on any system."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from upheaval_node.errors import NodeError
from upheaval_node.ports import Buffer
from upheaval_node.types import Now, SessionId, TermId


class Session(Protocol):
    """A client session with the cluster. `upheaval_node.client.session.ClusterClient` is one."""

    @property
    def is_connected(self) -> bool:
        """Whether operations may be offered."""

    @property
    def is_closed(self) -> bool:
        """Whether it has ended and a new one is needed."""

    leadership_term_id: TermId
    opened_term_id: TermId
    leader_member_id: int
    """The member that the cluster named as the leader of that term; -1 if it is not known."""
    session_id: SessionId
    error: NodeError | None

    def do_work(self, now: Now) -> int:
        """A duty cycle: connect, follow the leader, keep the session alive."""

    def next_deadline_ns(self) -> int:
        """The latest time of the next duty cycle when no input arrives."""

    def poll(self, handler: Callable[[int, Buffer], None], limit: int = ...) -> int:
        """Deliver received messages. The handler takes the egress position and the payload."""

    def offer(self, *parts: Buffer) -> int:
        """Send one message. Returns a positive position, or a negative result when it was not taken."""

    def close(self) -> None:
        """Close the session, and notify the cluster if possible."""


@runtime_checkable
class SessionThatGivesBack(Session, Protocol):
    """A session that may accept a message and report later that no member has it."""

    def given_back(self) -> Sequence[int]:
        """The results of `offer` for messages that are in no log and never will be. Each is returned once."""
