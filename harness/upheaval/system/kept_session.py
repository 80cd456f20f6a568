"""The session that a waiting client keeps between its requests, for tests and loads alike."""

import time
from contextlib import suppress

from upheaval.system.clients import WaitingClient
from upheaval.workload import Session
from upheaval_node.errors import NodeError, UsageError
from upheaval_node.types import NULL_VALUE


class KeptSession:
    """Replaces the session of a client when it has ended or was given up.

    Ask `goes_on` before each request. It looks whether the session has ended, unless the last look was less than
    `fresh_s` ago.
    """

    def __init__(self, client: WaitingClient, fresh_s: float = 0) -> None:
        self._client = client
        self._fresh_s = fresh_s
        self._looked_s = 0.0
        self._is_kept = False

    @property
    def session_id(self) -> int | None:
        """The id of the current or last session; None before the first one is open."""
        try:
            session_id = int(self._client.session_id)
        except UsageError:
            return None
        return None if session_id == NULL_VALUE else session_id

    def goes_on(self) -> bool:
        """Whether the session serves another request. Raises `NodeError`."""
        if self.session_id is None:
            return False
        now_s = time.monotonic()
        if now_s - self._looked_s >= self._fresh_s:
            self._client.idle(0)
            self._looked_s = now_s
        return self._is_kept and not self._client.session.is_closed

    def open(self) -> Session:
        """Open another session. Raises `NodeError`."""
        self._is_kept = False
        self._client.reconnect()
        self._is_kept = True
        return self._client.session

    def give_up(self) -> None:
        """The session serves no further request, because a late answer could be taken for that to the next one."""
        self._is_kept = False

    def close(self, seconds: float = 0) -> None:
        """Receive messages for that many seconds, with 0 those that have arrived, and close the client."""
        try:
            with suppress(NodeError):
                self._client.idle(seconds)
        finally:
            self._client.close()
