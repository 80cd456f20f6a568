"""Sessions with a cluster of Aeron's, through a bridge: a process of `upheaval.Bridge`, each one a connection to it.

Frames both ways: a little-endian int32 with the length of the rest, one byte with the kind, the body. A message counts
as offered when the bridge has it: one that it could not hand on (`N`) gets no answer, and its outcome stays unknown.
"""

import contextlib
import os
import select
import socket
import struct
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import IO, Final

from upheaval.errors import EnvironmentFault
from upheaval.system.clients import ClientNeeds
from upheaval.workload import Session
from upheaval_node.errors import NodeError, TimeoutExpired
from upheaval_node.media.api import BACK_PRESSURED, NOT_CONNECTED
from upheaval_node.ports import Agent, Buffer, Connection, Network
from upheaval_node.types import NEVER_NS, NULL_TERM_ID, NULL_VALUE, Now, SessionId, TermId

LOG_FILE: Final = "bridge.log"
_READY: Final = b"BRIDGE "
_START_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 5.0
_HEAD: Final = struct.Struct("<iB")
_LEADER: Final = struct.Struct("<qiq")
_BODY_OFFSET: Final = 4
_UNSENT_MAX: Final = 1 << 16
"""Bytes that wait for the bridge to take them; more are not offered."""
_CONNECT, _OFFER, _CLOSE = b"COX"
_TOLD_LEADER, _ANSWER, _ERROR, _END = b"LRED"


def bridge_options(needs: ClientNeeds) -> list[str]:
    """What the bridge dials for each endpoint of the cluster, which tells of new leaders by these; and where it takes
    answers. Raises `EnvironmentFault` when all places for that are taken.
    """
    options = [f"{endpoint}={needs.resolver.resolve(endpoint, 0)}" for endpoint in needs.endpoints.values()]
    if needs.egress_endpoints:
        free = next((endpoint for endpoint in needs.egress_endpoints if _is_free(endpoint)), None)
        if free is None:
            raise EnvironmentFault(f"{len(needs.egress_endpoints)} programs are clients already: end one of them")
        options.append(f"egress={free}")
    return options


def _is_free(endpoint: str) -> bool:
    host, _, port = endpoint.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, int(port)))
        except OSError:
            return False
    return True


class BridgeClients:
    """The bridge of one load and its sessions. Implements `Clients`."""

    agents: Sequence[Agent] = ()

    def __init__(self, needs: ClientNeeds, command: Sequence[str]) -> None:
        """Start the bridge and wait until it listens. Raises `EnvironmentFault` when it does not."""
        self._needs = needs
        log = needs.folder / LOG_FILE
        with log.open("ab") as said:
            # In a session of its own: what interrupts the load must not end the bridge before its sessions.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, start_new_session=True
            )
        try:
            self._address = f"127.0.0.1:{self._port()}"
        except BaseException:
            self.close()
            raise

    def open_session(self) -> Session:
        """Connected when the cluster has let it in."""
        endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in self._needs.endpoints.items())
        return BridgeSession(self._needs.network, self._address, endpoints)

    def close(self) -> None:
        """End the bridge with its input; by force when that is not enough."""
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _port(self) -> int:
        assert self._process.stdout is not None
        line = _line(self._process.stdout, _START_TIMEOUT_S)
        if not line.startswith(_READY):
            why = f"status {self._process.wait()}" if not line and self._process.poll() is not None else f"{line!r}"
            where = self._needs.folder / LOG_FILE
            raise EnvironmentFault(f"the bridge for clients does not start: {why} (see {where})")
        return int(line[len(_READY) :])


def _line(pipe: IO[bytes], timeout_s: float) -> bytes:
    """The first line of what a process says; what there is of it when it ends, or says no whole line in time."""
    deadline = time.monotonic() + timeout_s
    told = b""
    while not told.endswith(b"\n"):
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        more = os.read(pipe.fileno(), 1) if ready else b""
        if not more:
            break
        told += more
    return told


class BridgeSession:
    """One session. Implements `workload.Session` and `ports.ConnectionHandler`."""

    def __init__(self, network: Network, address: str, endpoints: str) -> None:
        self.is_connected = False
        self.is_closed = False
        self.leadership_term_id: TermId = NULL_TERM_ID
        self.opened_term_id: TermId = NULL_TERM_ID
        self.session_id = SessionId(NULL_VALUE)
        self.error: NodeError | None = None
        self._is_open = False
        self._unsent = bytearray()
        self._received = bytearray()
        self._answers: deque[bytes] = deque()
        self._work = 0
        self._told = ""
        self._write(_CONNECT, endpoints.encode())
        self._connection = network.dial(address, self)

    # --- for the load ---

    def do_work(self, now: Now) -> int:  # noqa: ARG002 - the network delivers by itself
        """How much has come since the last turn."""
        self._flush()
        work, self._work = self._work, 0
        return work

    def next_deadline_ns(self) -> int:
        """Only input concerns it."""
        return NEVER_NS

    def poll(self, handler: Callable[[int, Buffer], None], limit: int = 100) -> int:
        """Deliver what the service sent; what position it had in the egress the bridge does not tell."""
        count = 0
        while self._answers and count < limit:
            handler(0, self._answers.popleft())
            count += 1
        return count

    def offer(self, *parts: Buffer) -> int:
        """Hand one message to the bridge."""
        if not self.is_connected:
            return NOT_CONNECTED
        if len(self._unsent) > _UNSENT_MAX:
            return BACK_PRESSURED
        self._write(_OFFER, b"".join(parts))
        self._flush()
        return 1

    def close(self) -> None:
        """Let the bridge close the session with the cluster."""
        if self.is_closed:
            return
        self._write(_CLOSE, b"")
        self._flush()
        self._connection.close()
        self._end(None)

    # --- for the network ---

    def on_connected(self, connection: Connection) -> None:  # noqa: ARG002 - the one that was dialled
        """Say what waits."""
        self._is_open = True
        self._flush()

    def on_data(self, data: memoryview) -> None:
        """Take the frames that are whole."""
        self._work += 1
        received = self._received
        received += data
        begin = 0
        while len(received) - begin >= _HEAD.size:
            length, kind = _HEAD.unpack_from(received, begin)
            end = begin + _BODY_OFFSET + length
            if len(received) < end:
                break
            self._take(kind, bytes(received[begin + _HEAD.size : end]))
            begin = end
        del received[:begin]

    def on_writable(self) -> None:
        """Say what waits."""
        self._work += 1
        self._flush()

    def on_closed(self, reason: str) -> None:
        """The bridge is gone."""
        self._work += 1
        self._end(TimeoutExpired(f"the bridge closed the connection: {reason}"))

    def _take(self, kind: int, body: bytes) -> None:
        if kind == _ANSWER:
            self._answers.append(body)
        elif kind == _TOLD_LEADER:
            term_id, _, session_id = _LEADER.unpack(body)
            self.leadership_term_id, self.session_id = TermId(term_id), SessionId(session_id)
            if not self.is_connected:
                self.opened_term_id = self.leadership_term_id
            self.is_connected = True
        elif kind == _ERROR:
            self._told = body.decode("utf-8", "replace")
        elif kind == _END:
            told = f"; before that, {self._told}" if self._told else ""
            self._connection.close()
            # Whether the cluster or the client gave the session up the bridge does not say.
            self._end(TimeoutExpired(body.decode("utf-8", "replace") + told))

    def _end(self, error: NodeError | None) -> None:
        self.error = self.error or error
        self.is_connected, self.is_closed = False, True

    def _write(self, kind: int, body: bytes) -> None:
        self._unsent += _HEAD.pack(len(body) + 1, kind) + body

    def _flush(self) -> None:
        if self._is_open and self._unsent:
            sent = self._connection.send([bytes(self._unsent)])
            del self._unsent[:sent]
