"""Waiting clients of Aeron clusters: each has one session, through a bridge that they share."""

import time
from collections.abc import Callable
from typing import Final

from upheaval.system.aeron_clients import AnyBridge, BridgeSession, endpoints_text
from upheaval.system.clients import WayIn
from upheaval_node.client.driving import CLOSE_TIMEOUT_NS, POLL_LIMIT, RETRY_INTERVAL_NS, NotSent, OutcomeUnknown
from upheaval_node.errors import NodeError, TimeoutExpired, UsageError
from upheaval_node.ports import Buffer
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.duty_cycle import DutyCycle
from upheaval_node.runtime.loop import Loop
from upheaval_node.runtime.network import SelectorNetwork
from upheaval_node.types import MS, NEVER_NS, Now, S

_RECONNECT_DELAY_NS: Final = 100 * MS


class BridgeWaitingClients:
    """A bridge and its clients. Implements `WaitingClients`."""

    def __init__(self, way: WayIn, bridge: AnyBridge) -> None:
        self._endpoints = endpoints_text(way)
        self._bridge = bridge

    def new_client(self, timeout_s: float) -> "BridgeWaitingClient":
        """A client with its own loop."""
        return BridgeWaitingClient(self._bridge.address, self._endpoints, timeout_s)

    @property
    def failure(self) -> str:
        """How the bridge ended by itself."""
        return self._bridge.failure

    def close(self) -> None:
        """End the bridge."""
        self._bridge.close()


class BridgeWaitingClient:
    """Implements `WaitingClient`, and `ports.Agent` for its session. Use it from one thread or greenlet at a time."""

    def __init__(self, address: str, endpoints: str, timeout_s: float) -> None:
        self.on_unasked: Callable[[Buffer], None] | None = None
        self.invoke_ns = 0
        self._address = address
        self._endpoints = endpoints
        self._timeout_ns = round(timeout_s * S)
        self._loop = Loop()
        self._network = SelectorNetwork(self._loop)
        self._cycle = DutyCycle(self._loop, SystemClock(), (self,))
        self._session: BridgeSession | None = None
        self._is_closed = False
        self._accepts: Callable[[Buffer], bool] | None = None
        self._asked = 0
        """The number of the last message that the bridge took."""
        self._received: list[bytes] = []
        self._given_back: set[int] = set()

    @property
    def is_connected(self) -> bool:
        """Whether it has a session that takes messages."""
        return self._session is not None and self._session.is_connected

    @property
    def session(self) -> BridgeSession:
        """The current or last session. Raises `UsageError` before the first one."""
        if self._session is None:
            raise UsageError("the client is not connected: call reconnect()")
        return self._session

    @property
    def session_id(self) -> int:
        """The cluster session id. Raises `UsageError` before the first one."""
        return self.session.session_id

    def reconnect(self) -> None:
        """Close the session, if it has one, and try to open another until the time-out. Raises `TimeoutExpired`."""
        deadline_ns = time.monotonic_ns() + self._timeout_ns
        error: NodeError | None = None
        while True:
            session = self._open(deadline_ns)
            if session.is_connected:
                return
            session.close()
            error = session.error or error
            retry_ns = time.monotonic_ns() + _RECONNECT_DELAY_NS
            if retry_ns >= deadline_ns:
                raise TimeoutExpired(str(error or "no session within the time-out"))
            self._cycle.run_until(lambda: False, retry_ns)

    def _open(self, deadline_ns: int) -> BridgeSession:
        """Open another session. The cluster may have refused it."""
        if self._session is not None:
            self._session.close()
        session = self._session = BridgeSession(self._network, self._address, self._endpoints)
        # Each session numbers its messages from 1.
        self._given_back.clear()
        self._cycle.run_until(lambda: session.is_connected or session.is_closed, deadline_ns)
        return session

    def request(self, payload: Buffer, accepts: Callable[[Buffer], bool] | None = None) -> bytes:
        """Send a message and wait for its answer. A message that the bridge gives back is sent again until the
        time-out, and a message that arrived before is no answer.

        Raises `NotSent` when the cluster does not have the message, and `OutcomeUnknown` when no answer came.
        """
        session = self.session
        deadline_ns = time.monotonic_ns() + self._timeout_ns
        self._received.clear()
        self._cycle.run_once(0)
        self.invoke_ns = time.monotonic_ns()
        self._ask(session, payload, accepts or _any, deadline_ns)
        while not self._received:
            # The bridge gives a message that is too long back at once.
            self._cycle.run_until(lambda: session.is_closed, time.monotonic_ns() + RETRY_INTERVAL_NS)
            self._ask(session, payload, accepts or _any, deadline_ns)
        return self._received.pop()

    def idle(self, seconds: float) -> None:
        """Receive messages for that many seconds, with 0 those that have arrived.

        The bridge keeps the session alive.
        """
        self._cycle.run_once(0)
        self._cycle.run_until(lambda: False, time.monotonic_ns() + round(seconds * S))

    def close(self) -> None:
        """Close the session and release the sockets. The client cannot be used again."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._session is not None:
            self._session.close()
            self._cycle.run_once(0)
        self._network.drain(CLOSE_TIMEOUT_NS)
        self._network.close()
        self._loop.close()

    # --- the agent ---

    def do_work(self, now: Now) -> int:
        """Handle what arrived for the session."""
        session = self._session
        if session is None:
            return 0
        return session.do_work(now) + self._take(session)

    def next_deadline_ns(self) -> int:
        """Never: it only reacts to input."""
        return NEVER_NS

    def _ask(
        self, session: BridgeSession, payload: Buffer, accepts: Callable[[Buffer], bool], deadline_ns: int
    ) -> None:
        """Offer the message once. Returns when there is an answer, or when the bridge has given the message back."""
        number = self._asked = self._send(session, payload, deadline_ns)
        self._accepts = accepts
        try:
            self._cycle.run_until(
                lambda: bool(self._received) or session.is_closed or number in self._given_back, deadline_ns
            )
            # Messages that arrived together with the end of the session.
            self._take(session)
        finally:
            self._accepts = None
        if not self._received and number not in self._given_back:
            why = f"the session ended ({session.error})" if session.is_closed else "no answer within the time-out"
            raise OutcomeUnknown(f"{why}: the outcome of the request is unknown")

    def _send(self, session: BridgeSession, payload: Buffer, deadline_ns: int) -> int:
        while True:
            now_ns = time.monotonic_ns()
            if session.is_closed:
                raise NotSent(f"the session has ended ({session.error}): nothing was sent")
            if now_ns >= deadline_ns:
                error = f"; the bridge's last error: {session.last_error}" if session.last_error else ""
                raise NotSent(f"nothing was sent within the time-out: no leader takes it{error}")
            number = session.offer(payload)
            if number > 0:
                return number
            self._cycle.run_once(min(RETRY_INTERVAL_NS, deadline_ns - now_ns))

    def _take(self, session: BridgeSession) -> int:
        self._given_back.update(session.given_back())
        if self._asked in self._given_back:
            # What arrived with it is no answer: the cluster does not have the message.
            self._accepts = None
        return session.poll(self._on_message, POLL_LIMIT)

    def _on_message(self, position: int, payload: Buffer) -> None:  # noqa: ARG002 - the bridge does not tell it
        if self._accepts is not None and not self._received and self._accepts(payload):
            self._received.append(bytes(payload))
        elif self.on_unasked is not None:
            self.on_unasked(payload)


def _any(payload: Buffer) -> bool:  # noqa: ARG001 - whatever it is
    return True
