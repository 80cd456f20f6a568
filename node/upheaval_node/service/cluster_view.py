"""The `Cluster` that a service sees: the state of the container at the entry that is being delivered.

The container and the log consumer write the fields; the service reads them. Knows nothing of how entries arrive.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Never

from upheaval_node.errors import UsageError
from upheaval_node.ports import Buffer
from upheaval_node.service.api import ClientSession, ClusterRole, ClusterTimeUnit
from upheaval_node.service.module_proxy import ModuleProxy
from upheaval_node.service.session import ContainerSession
from upheaval_node.types import NULL_VALUE


class ClusterView:
    """Implements `api.Cluster`. `callback` names the running life-cycle callback, which must not send anything."""

    def __init__(self, module: ModuleProxy) -> None:
        self.member_id = NULL_VALUE
        self.role = ClusterRole.FOLLOWER
        self.log_position = 0
        self.time = 0
        self.time_unit = ClusterTimeUnit.MILLIS
        self.leadership_term_id = NULL_VALUE
        self.callback: str | None = None
        self.sessions: dict[int, ContainerSession] = {}
        self.backlog: dict[int, ContainerSession] = {}
        self.backlog_length = 0
        self.dropped_responses = 0
        self._module = module
        self._timers: dict[int, int] = {}

    @property
    def client_sessions(self) -> Mapping[int, ClientSession]:
        """The open sessions by id, as a read-only view."""
        return MappingProxyType(self.sessions)

    def client_session(self, session_id: int) -> ClientSession | None:
        """The open session with that id, or None."""
        return self.sessions.get(session_id)

    def close_client_session(self, session_id: int) -> bool:
        """Ask for the end of a session. Raises `UsageError` for an unknown session and inside a life-cycle callback."""
        self._check_may_send("closing a session")
        session = self.sessions.get(session_id)
        if session is None:
            raise UsageError(f"unknown client session {session_id}")
        if not session.is_closing:
            session.is_closing = self._module.close_session(session_id)
        return session.is_closing

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        """Schedule a timer. Raises `UsageError` inside a life-cycle callback and without a consensus module."""
        self._check_may_send("scheduling a timer")
        self._timers[correlation_id] = deadline
        return self._module.schedule_timer(correlation_id, deadline)

    def cancel_timer(self, correlation_id: int) -> bool:
        """Cancel a timer. Raises `UsageError` inside a life-cycle callback and without a consensus module."""
        self._check_may_send("cancelling a timer")
        self._timers.pop(correlation_id, None)
        return self._module.cancel_timer(correlation_id)

    def offer(self, *parts: Buffer) -> int:
        """Offer a message to the log.

        Raises `UsageError` inside a life-cycle callback, without a consensus module, and for a message that is too
        long.
        """
        self._check_may_send("offering to the log")
        return self._module.offer(self.leadership_term_id, self.time, parts)

    # --- for the container ---

    def end_timer(self, correlation_id: int, timestamp: int) -> None:
        """Take an expiry from the log. The service cancels the timer in its module, in the order of its requests.

        An expiry before the deadline belongs to an earlier request, which the current one has replaced; it leaves the
        timer.
        """
        deadline = self._timers.get(correlation_id)
        if deadline is not None and deadline <= timestamp:
            del self._timers[correlation_id]
            # A module that is gone has no timers to cancel.
            with suppress(UsageError):
                self._module.cancel_timer(correlation_id)

    @contextmanager
    def during(self, callback: str) -> Iterator[None]:
        """Mark a life-cycle callback as running."""
        assert self.callback is None, (self.callback, callback)
        self.callback = callback
        try:
            yield
        finally:
            self.callback = None

    def refuse_in_callback(self, what: str) -> Never:
        """Raise a `UsageError` that names the running life-cycle callback."""
        raise UsageError(f"{what} is not allowed inside {self.callback}")

    def _check_may_send(self, what: str) -> None:
        if self.callback is not None:
            self.refuse_in_callback(what)
