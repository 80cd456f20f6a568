"""Sessions with a cluster of Aeron's, through a bridge: a process of `upheaval.Bridge`, each one a connection to it.

Frames both ways: a little-endian int32 with the length of the rest, one byte with the kind, the body. A message counts
as offered when the bridge has it; one that the bridge could not hand on (`N`) is given back, and is in no log.
"""

import contextlib
import os
import select
import shutil
import socket
import struct
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from upheaval.errors import EnvironmentFault
from upheaval.system.clients import ClientNeeds, WayIn
from upheaval.workload import Session
from upheaval_chaos.programs import ENCODING, ERRORS, environment, printed
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
_NUMBER: Final = struct.Struct("<q")
_BODY_OFFSET: Final = 4
_UNSENT_MAX: Final = 1 << 16
"""Bytes that wait for the bridge to take them; more are not offered."""
_CONNECT, _OFFER, _CLOSE = b"COX"
_TOLD_LEADER, _ANSWER, _ERROR, _END, _GIVEN_BACK = b"LREDN"


class Bridge:
    """The process of a bridge. `address` is where it listens. Implements `AnyBridge`."""

    def __init__(self, command: Sequence[str], folder: Path, directory: Path, egress: "Egress") -> None:
        """Start it and wait until it listens; `directory` and `egress` are its own until it is closed.

        Raises `EnvironmentFault` when it does not start.
        """
        self._log = folder / LOG_FILE
        self._directory, self._egress = directory, egress
        with self._log.open("ab") as log:
            # In a session of its own: what interrupts its clients must not end the bridge before their sessions.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
        try:
            self.address = f"127.0.0.1:{self._port()}"
        except BaseException:
            self.close()
            raise

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
        shutil.rmtree(self._directory, ignore_errors=True)
        self._egress.give_back()

    def _port(self) -> int:
        assert self._process.stdout is not None
        line = _line(self._process.stdout, _START_TIMEOUT_S)
        if not line.startswith(_READY):
            self._process.kill()
            self._process.wait()
            words = self._log.read_text(encoding=ENCODING, errors=ERRORS).split("\n")
            why = next((word.strip() for word in reversed(words) if word.strip()), f"it said {line!r}")
            raise EnvironmentFault(f"the bridge for clients does not start: {why} (see {self._log})")
        return int(line[len(_READY) :])


class AnyBridge(Protocol):
    """What sessions connect to."""

    @property
    def address(self) -> str:
        """Where it listens."""

    def close(self) -> None:
        """Its clients need it no more."""


@dataclass(frozen=True, slots=True)
class RunningBridge:
    """A bridge that another process has started, and ends. Implements `AnyBridge`."""

    address: str

    def close(self) -> None:
        """It goes on."""


class BridgeClients:
    """Sessions of a load through a bridge of their own. Implements `Clients`."""

    agents: Sequence[Agent] = ()

    def __init__(self, needs: ClientNeeds, bridge: AnyBridge) -> None:
        self._needs = needs
        self._bridge = bridge

    def open_session(self) -> Session:
        """Connected when the cluster has let it in."""
        return BridgeSession(self._needs.network, self._bridge.address, endpoints_text(self._needs.way))

    def close(self) -> None:
        """End the bridge."""
        self._bridge.close()


def endpoints_text(way: WayIn) -> str:
    """The endpoints that a bridge connects to, as it takes them."""
    return ",".join(f"{member}={endpoint}" for member, endpoint in way.endpoints.items())


class Egress:
    """Where members answer to one bridge: a host, and its sessions choose their ports, or one of the places of a run.

    The process that has bound the TCP port of its number has taken a place, because a bridge binds the UDP port only
    while it has a session. A bridge that has one has taken it too, even when the process that started it is gone.
    """

    def __init__(self, way: WayIn) -> None:
        """Take a place. Raises `EnvironmentFault` when none is left."""
        self._held: socket.socket | None = None
        self.endpoint = way.host
        for endpoint in way.egress_endpoints:
            self._held = _bound(endpoint)
            if self._held is not None:
                self.endpoint = endpoint
                return
        if way.egress_endpoints:
            raise EnvironmentFault(f"{len(way.egress_endpoints)} programs are clients already: end one of them")

    def give_back(self) -> None:
        """Another bridge may have it."""
        if self._held is not None:
            self._held.close()


def _bound(endpoint: str) -> socket.socket | None:
    host, _, port = endpoint.rpartition(":")
    held = socket.socket()
    try:
        held.bind((host, int(port)))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((host, int(port)))
    except OSError:
        held.close()
        return None
    return held


def _line(pipe: IO[bytes], timeout_s: float) -> bytes:
    """The first line of what a process says; what there is of it when it ends, or says no whole line in time."""
    deadline = time.monotonic() + timeout_s
    line = b""
    while not line.endswith(b"\n"):
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        more = os.read(pipe.fileno(), 1) if ready else b""
        if not more:
            break
        line += more
    return line


class BridgeSession:
    """One session. Implements `workload.SessionThatGivesBack` and `ports.ConnectionHandler`."""

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
        self._offered = 0
        self._given_back: list[int] = []
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
        """Hand one message to the bridge; the how-manyth of this session it is."""
        if not self.is_connected:
            return NOT_CONNECTED
        if len(self._unsent) > _UNSENT_MAX:
            return BACK_PRESSURED
        self._write(_OFFER, b"".join(parts))
        self._flush()
        self._offered += 1
        return self._offered

    def given_back(self) -> Sequence[int]:
        """What `offer` returned for messages that were not taken; each is returned once."""
        numbers, self._given_back = self._given_back, []
        return numbers

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
        elif kind == _GIVEN_BACK:
            self._given_back.append(*_NUMBER.unpack(body))
        elif kind == _ERROR:
            self._told = printed(body)
        elif kind == _END:
            earlier = f"; before that, {self._told}" if self._told else ""
            self._connection.close()
            # Whether the cluster or the client gave the session up the bridge does not say.
            self._end(TimeoutExpired(printed(body) + earlier))

    def _end(self, error: NodeError | None) -> None:
        self.error = self.error or error
        self.is_connected, self.is_closed = False, True

    def _write(self, kind: int, body: bytes) -> None:
        self._unsent += _HEAD.pack(len(body) + 1, kind) + body

    def _flush(self) -> None:
        if self._is_open and self._unsent:
            sent = self._connection.send([bytes(self._unsent)])
            del self._unsent[:sent]
