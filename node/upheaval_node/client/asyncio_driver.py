"""`AsyncClient`: a cluster client for asyncio, with many requests in flight at once.

A thin shell around the same session as the blocking driver's. Its sockets are registered with the event loop, and the
session runs in short turns of that loop, whenever there is input or a deadline has passed. So keep-alives and a change
of leader are handled while the program does something else. A client belongs to the event loop in which it connected.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from random import Random, SystemRandom
from types import TracebackType
from typing import Final, Self, Unpack

from upheaval_node.client import operations
from upheaval_node.client.driving import (
    CLOSE_TIMEOUT_NS,
    RETRY_INTERVAL_NS,
    ClientDriver,
    ClientOptions,
    NotSent,
    OperationFailed,
    OutcomeUnknown,
    check_response,
    not_sent,
    outcome_unknown,
    read_response,
)
from upheaval_node.client.operations import Response, Status
from upheaval_node.client.session import ClusterClient
from upheaval_node.errors import NodeError, UsageError
from upheaval_node.media.driver import MediaDriver
from upheaval_node.ports import Buffer
from upheaval_node.runtime.asyncio_loop import AsyncioLoop
from upheaval_node.runtime.client_security import client_credentials, client_identity
from upheaval_node.runtime.clock import SystemClock
from upheaval_node.runtime.network import SocketNetwork
from upheaval_node.runtime.tls import TlsIdentity
from upheaval_node.types import NEVER_NS, S

__all__ = ["AsyncClient", "NotSent", "OperationFailed", "OutcomeUnknown"]

ROUNDS_A_TURN: Final = 10
"""The most rounds of media and session in one turn, before other callbacks of the event loop run."""


class _Request:
    """One request in flight. `operation_id` or `accepts` identifies its answer; without them it takes any answer."""

    def __init__(
        self, client: ClusterClient, payload: bytes, operation_id: int | None, accepts: Callable[[Buffer], bool] | None
    ) -> None:
        self.client = client
        self.payload = payload
        self.operation_id = operation_id
        self.accepts = accepts
        self.is_sent = False
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    @property
    def is_waiting(self) -> bool:
        return self.is_sent and not self.answer.done()

    @property
    def failure(self) -> NodeError:
        """The error to raise when there is no answer."""
        return outcome_unknown(self.client) if self.is_sent else not_sent(self.client)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class AsyncClient(ClientDriver):
    """A client for an `async with` statement, which connects and closes; `options` are those of `ClientOptions`.

    A cancelled call is forgotten: if it was sent its outcome is unknown, otherwise it will never be sent.
    """

    def __init__(
        self,
        endpoints: Mapping[int, str] | str,
        timeout: float = 5.0,
        *,
        random: Random | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        super().__init__(endpoints, timeout, random or SystemRandom(), **options)
        self._credentials = client_credentials(options.get("credentials"), options.get("credentials_file", ""))
        self._identity = client_identity(options.get("tls"), self._on_tls_trouble)
        self._clock = SystemClock()
        self._parts: _Parts | None = None
        self._unsent: deque[_Request] = deque()
        self._by_operation: dict[int, _Request] = {}
        self._by_test: dict[_Request, None] = {}
        self._takes_any: _Request | None = None
        self._one_at_a_time = asyncio.Lock()
        self._settled: asyncio.Future[None] | None = None

    # --- connection ---

    async def connect(self) -> None:
        """Open a session. Raises `TimeoutExpired`, or the error that the cluster answered."""
        self._refuse_to_connect_again()
        parts = self._running_parts()
        client = self._begin_session(parts.media)
        self._settled = parts.loop.create_future()
        parts.wake()
        try:
            # The session ends itself after the same time-out; the margin gives it time to report the cause.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_ns / S + 1):
                    await self._settled
        except BaseException:
            client.close()
            parts.wake()
            raise
        finally:
            self._settled = None
        self._check_connected(client)

    async def reconnect(self) -> None:
        """Give up any open session and open another, with the last known members."""
        self._give_up_session()
        self._fail_all()
        await self.connect()

    async def close(self) -> None:
        """Close the session and release the sockets. The client cannot be used again."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._client is not None:
            self._client.close()
        self._fail_all()
        parts, self._parts = self._parts, None
        if parts is not None:
            await parts.close(self._clock)

    async def __aenter__(self) -> Self:
        try:
            await self.connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- calls ---

    async def request(self, payload: Buffer, accepts: Callable[[Buffer], bool] | None = None) -> bytes:
        """Send a message to the service and wait for the response, which `accepts` recognises.

        Requests with `accepts` may be in flight together. Requests without it take any answer that no other request
        accepts, and wait for each other. Raises `NotSent` when the request could not be sent, with no effect on the
        cluster, and `OutcomeUnknown` when no answer came in time or the session ended before it came.
        """
        deadline = asyncio.get_running_loop().time() + self._timeout_ns / S
        if accepts is not None:
            return await self._exchange(payload, deadline, accepts=accepts)
        try:
            async with asyncio.timeout_at(deadline):
                await self._one_at_a_time.acquire()
        except TimeoutError:
            raise NotSent("nothing was sent within the time-out: another request had no answer yet") from None
        try:
            return await self._exchange(payload, deadline)
        finally:
            self._one_at_a_time.release()

    async def call(self, request: bytes) -> Response:
        """Send a request of `client.operations`, whose operation id identifies the response.

        Raises `OperationFailed` when the service refused it, otherwise as `request` does.
        """
        operation_id = operations.peek_operation_id(request)
        if operation_id in self._by_operation:
            raise UsageError(f"operation {operation_id} is under way already")
        deadline = asyncio.get_running_loop().time() + self._timeout_ns / S
        response = read_response(await self._exchange(request, deadline, operation_id=operation_id))
        check_response(response)
        return response

    async def echo(self, value: bytes, *, operation_id: int | None = None) -> bytes:
        """Send a value through the log and return the value that came back."""
        response = await self.call(operations.echo_request(self._id(operation_id), value))
        return response.value or b""

    async def read(self, key: str, *, operation_id: int | None = None) -> bytes | None:
        """The value of a register, None for an absent key."""
        return (await self.call(operations.read_request(self._id(operation_id), key))).value

    async def write(self, key: str, value: bytes, *, operation_id: int | None = None) -> None:
        """Set a register."""
        await self.call(operations.write_request(self._id(operation_id), key, value))

    async def cas(self, key: str, expected: bytes | None, value: bytes, *, operation_id: int | None = None) -> bool:
        """Set a register if it holds `expected` (None: if the key is absent). Returns whether it was set."""
        request = operations.compare_and_set_request(self._id(operation_id), key, expected, value)
        return (await self.call(request)).status is Status.OK

    async def append(self, key: str, value: bytes, *, operation_id: int | None = None) -> None:
        """Add a value to the end of a list."""
        await self.call(operations.append_request(self._id(operation_id), key, value))

    async def read_list(self, key: str, *, operation_id: int | None = None) -> list[bytes]:
        """The values of a list in order, empty for an absent key."""
        return list((await self.call(operations.read_list_request(self._id(operation_id), key))).values or ())

    def _id(self, operation_id: int | None) -> int:
        return self.new_operation_id() if operation_id is None else operation_id

    async def _exchange(
        self,
        payload: Buffer,
        deadline: float,
        *,
        operation_id: int | None = None,
        accepts: Callable[[Buffer], bool] | None = None,
    ) -> bytes:
        client = self.session
        if client.is_closed:
            raise not_sent(client)
        parts = self._running_parts()
        request = _Request(client, bytes(payload), operation_id, accepts)
        with self._under_way(request):
            self._send_waiting()
            parts.wake()
            try:
                async with asyncio.timeout_at(deadline):
                    return await request.answer
            except TimeoutError:
                if request.answer.done() and not request.answer.cancelled():
                    return request.answer.result()  # it came in the same moment
                raise request.failure from None

    @contextlib.contextmanager
    def _under_way(self, request: _Request) -> Iterator[None]:
        """Register a request for its answer, for as long as its caller waits."""
        self._unsent.append(request)
        if request.operation_id is not None:
            self._by_operation[request.operation_id] = request
        elif request.accepts is not None:
            self._by_test[request] = None
        else:
            self._takes_any = request
        try:
            yield
        finally:
            if not request.is_sent and request in self._unsent:
                self._unsent.remove(request)
            if request.operation_id is not None:
                del self._by_operation[request.operation_id]
            elif request.accepts is not None:
                del self._by_test[request]
            else:
                self._takes_any = None
            # Retrieve an error that came too late to be raised, or asyncio would complain about it.
            if request.answer.done() and not request.answer.cancelled():
                request.answer.exception()

    def _send_waiting(self) -> None:
        """Offer unsent requests, in order, until the transport takes no more."""
        while self._unsent and not self.session.is_closed:
            request = self._unsent[0]
            try:
                if self.session.offer(request.payload) <= 0:
                    return
                request.is_sent = True
            except NodeError as error:
                request.fail(error)
            self._unsent.popleft()

    def _on_message(self, timestamp: int, payload: Buffer) -> None:  # noqa: ARG002 - the cluster time is not needed
        request = self._by_operation.get(operations.peek_operation_id(payload))
        if request is None or not request.is_waiting:
            request = next((pending for pending in self._by_test if _accepts(pending, payload)), self._takes_any)
        if request is not None and request.is_waiting:
            request.answer.set_result(bytes(payload))

    # --- turns of the event loop ---

    def _running_parts(self) -> "_Parts":
        loop = asyncio.get_running_loop()
        if self._parts is None:
            self._parts = _Parts(loop, self._identity, self._turn, self._fail_all)
            self._parts.media = self._make_media(self._parts.network)
        if self._parts.loop is not loop:
            raise UsageError("the client belongs to another event loop")
        return self._parts

    def _turn(self) -> None:
        parts, client = self._parts, self._client
        if parts is None or client is None:
            return
        try:
            for _ in range(ROUNDS_A_TURN):
                now = self._clock.now()
                work = parts.media.do_work(now) + self.do_work(now)
                self._send_waiting()
                if work == 0:
                    break
            else:
                parts.wake()
        except Exception as error:  # noqa: BLE001 - whatever it is, callers wait for what it prevented
            self._fail_all(error)
        if client.is_closed:
            self._fail_all()
        if self._settled is not None and not self._settled.done() and (client.is_connected or client.is_closed):
            self._settled.set_result(None)
        deadline_ns = min(parts.media.next_deadline_ns(), self.next_deadline_ns())
        if self._unsent and client.is_connected:
            deadline_ns = min(deadline_ns, time.monotonic_ns() + RETRY_INTERVAL_NS)
        parts.wake_at(deadline_ns)

    def _fail_all(self, error: Exception | None = None) -> None:
        """Fail all requests in flight, which will get no answer. An unexpected `error` also ends the session."""
        if error is not None and self._client is not None:
            self._client.close()
        under_way = [*self._by_operation.values(), *self._by_test]
        for request in under_way if self._takes_any is None else [*under_way, self._takes_any]:
            request.fail(error or request.failure)
        if error is not None and self._settled is not None and not self._settled.done():
            self._settled.set_exception(error)


class _Parts:
    """The parts of a client in the event loop: network, media, and the time of the next turn."""

    media: MediaDriver

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        identity: TlsIdentity | None,
        turn: Callable[[], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.loop = loop
        self._turn = turn
        self.network = SocketNetwork(AsyncioLoop(loop, on_event=self._on_event, on_error=on_error), identity)
        self._event = asyncio.Event()
        self._is_awake = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = NEVER_NS

    def wake(self) -> None:
        """Schedule a turn soon. Repeated calls before that turn schedule no other."""
        if not self._is_awake:
            self._is_awake = True
            self.loop.call_soon(self._take_turn)

    def wake_at(self, deadline_ns: int) -> None:
        """Schedule a turn at `deadline_ns` or earlier."""
        if deadline_ns < self._timer_ns:
            self._cancel_timer()
            delay_s = max(0.0, (deadline_ns - time.monotonic_ns()) / S)
            self._timer_ns = deadline_ns
            self._timer = self.loop.call_later(delay_s, self._on_timer)

    async def close(self, clock: SystemClock) -> None:
        """Wait briefly for the last messages to leave, and release everything."""
        try:
            self.media.do_work(clock.now())
            self.media.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT_NS / S):
                    while self.network.connections.lingering:
                        self._event.clear()
                        await self._event.wait()
        finally:
            self.network.close()
            self._cancel_timer()

    def _on_event(self) -> None:
        self._event.set()
        self.wake()

    def _take_turn(self) -> None:
        self._is_awake = False
        self._turn()

    def _on_timer(self) -> None:
        self._cancel_timer()
        self.wake()

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._timer_ns = NEVER_NS


def _accepts(request: _Request, payload: Buffer) -> bool:
    """Whether `payload` is the answer. A test that raises fails its own request."""
    if not request.is_waiting or request.accepts is None:
        return False
    try:
        return request.accepts(payload)
    except Exception as error:  # noqa: BLE001 - the caller's own function
        request.fail(error)
        return False
