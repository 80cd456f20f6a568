"""Sessions with an Aeron cluster through a bridge: a process of `upheaval.Bridge`, with one connection per session.

Frames have the same form in both directions: a little-endian int32 with the length of the rest, one byte with the kind,
the body. A message counts as offered when the bridge has received it. A message that the bridge could not pass on (`N`)
is given back and is in no log.
"""

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, ClassVar, Final, Protocol

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.system.clients import ClientNeeds, WayIn
from upheaval.waits import wait_until
from upheaval.workload import Session
from upheaval_chaos.programs import ENCODING, ERRORS, environment, printed
from upheaval_node.errors import NodeError, TimeoutExpired
from upheaval_node.media.api import BACK_PRESSURED, NOT_CONNECTED
from upheaval_node.ports import Agent, Buffer, Connection, Network
from upheaval_node.types import NEVER_NS, NULL_TERM_ID, NULL_VALUE, Now, SessionId, TermId

LOG_FILE: Final = "bridge.log"
_READY: Final = re.compile(rb"BRIDGE (\d{1,5})\s*")
_START_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 30.0
_HEAD: Final = struct.Struct("<iB")
_LEADER: Final = struct.Struct("<qiq")
_NUMBER: Final = struct.Struct("<q")
_BODY_OFFSET: Final = 4
_UNSENT_MAX: Final = 1 << 16
"""The bytes that may wait for the bridge. With more, offers are refused."""
_CONNECT, _OFFER, _CLOSE = b"COX"
_NEW_LEADER, _ANSWER, _ERROR, _END, _GIVEN_BACK = b"LREDN"


class Bridge:
    """The process of a bridge, which listens on `address`. Implements `AnyBridge`."""

    def __init__(self, command: Sequence[str], folder: Path, directory: Path, egress: "Egress") -> None:
        """Start the bridge and wait until it listens. It owns `directory` and `egress` until it is closed. Raises
        `EnvironmentFault` when it does not start.
        """
        self._log = folder / LOG_FILE
        self._directory, self._egress = directory, egress
        self._is_closing = False
        self._failure = ""
        # Its output is a file: a pipe that is read only until it listens would block a client's code that prints.
        with self._log.open("ab") as log, tempfile.TemporaryFile() as output:
            # In its own process session: a signal that interrupts its clients must not end the bridge before their
            # sessions.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=log,
                env=environment(),
                start_new_session=True,
            )
            try:
                self.address = f"127.0.0.1:{self._port(output)}"
            except BaseException:
                self.close()
                raise

    @property
    def failure(self) -> str:
        """How it ended before it was closed: its exit status and the last line of its log. Empty if it did not."""
        if not self._is_closing and self._process.poll() is not None:
            why = self._last_line() or "it printed nothing"
            self._failure = f"the bridge for clients ended with status {self._process.returncode}: {why}"
        return self._failure

    def close(self) -> None:
        """End the bridge by closing its input, or by force when that does not suffice."""
        assert self._process.stdin is not None
        self._failure, self._is_closing = self.failure, True
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)
        self._egress.give_back()

    def _port(self, output: IO[bytes]) -> int:
        with contextlib.suppress(UnknownOutcome):
            port = wait_until(lambda: self._listening(output), timeout_s=_START_TIMEOUT_S, describe=lambda: "no port")
            if port > 0:
                return port
        self._process.kill()
        self._process.wait()
        why = self._last_line() or f"it printed {_whole(output)!r}"
        raise EnvironmentFault(f"the bridge for clients does not start: {why} (see {self._log})")

    def _last_line(self) -> str:
        lines = self._log.read_text(encoding=ENCODING, errors=ERRORS).split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _listening(self, output: IO[bytes]) -> int | None:
        """The port that it printed, after whatever a client's code printed before; 0 if it ended without one."""
        has_ended = self._process.poll() is not None
        *lines, _ = _whole(output).split(b"\n")
        ready = filter(None, map(_READY.fullmatch, lines))
        return next((int(line[1]) for line in ready), 0 if has_ended else None)


def _whole(file: IO[bytes]) -> bytes:
    return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


class AnyBridge(Protocol):
    """A bridge that sessions connect to."""

    @property
    def address(self) -> str:
        """The address on which it listens."""

    @property
    def failure(self) -> str:
        """How it ended although its clients need it; empty if it did not."""

    def close(self) -> None:
        """Release the bridge: its clients have ended."""


@dataclass(frozen=True, slots=True)
class RunningBridge:
    """A bridge that another process starts and ends. Implements `AnyBridge`."""

    address: str
    failure: ClassVar[str] = ""
    """The process that started it looks after it."""

    def close(self) -> None:
        """Does nothing: the bridge keeps running."""


class BridgeClients:
    """The sessions of a load, through a separate bridge. Implements `Clients`."""

    agents: Sequence[Agent] = ()

    def __init__(self, needs: ClientNeeds, bridge: AnyBridge) -> None:
        self._needs = needs
        self._bridge = bridge

    def open_session(self) -> Session:
        """A session that is connected once the cluster has accepted it."""
        return BridgeSession(self._needs.network, self._bridge.address, endpoints_text(self._needs.way))

    @property
    def failure(self) -> str:
        """How the bridge ended by itself."""
        return self._bridge.failure

    def close(self) -> None:
        """End the bridge."""
        self._bridge.close()


def endpoints_text(way: WayIn) -> str:
    """The endpoints in the form that a bridge takes."""
    return ",".join(f"{member}={endpoint}" for member, endpoint in way.endpoints.items())


class Egress:
    """The address for answers of members to one bridge: a host whose ports its sessions choose, or one of the run's
    places.

    A process takes a place by binding the TCP port of the same number, because a bridge binds the UDP port only during
    a session. A bridge with a session keeps the place, even when the process that started it is gone.
    """

    def __init__(self, way: WayIn) -> None:
        """Take a place. Raises `EnvironmentFault` when all are taken."""
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
        """Give the place back for another bridge."""
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


class BridgeSession:
    """One session. Implements `workload.SessionThatGivesBack` and `ports.ConnectionHandler`."""

    def __init__(self, network: Network, address: str, endpoints: str) -> None:
        self.is_connected = False
        self.is_closed = False
        self.leadership_term_id: TermId = NULL_TERM_ID
        self.opened_term_id: TermId = NULL_TERM_ID
        self.leader_member_id = NULL_VALUE
        self.session_id = SessionId(NULL_VALUE)
        self.error: NodeError | None = None
        self._is_open = False
        self._unsent = bytearray()
        self._received = bytearray()
        self._answers: deque[bytes] = deque()
        self._offered = 0
        self._given_back: list[int] = []
        self._work = 0
        self._last_error = ""
        self._write(_CONNECT, endpoints.encode())
        self._connection = network.dial(address, self)

    @property
    def last_error(self) -> str:
        """What the bridge last reported of the client, such as why it did not take a message; empty if nothing."""
        return self._last_error

    # --- for the load ---

    def do_work(self, now: Now) -> int:  # noqa: ARG002 - the network delivers by itself
        """How many events have arrived since the last turn."""
        self._flush()
        work, self._work = self._work, 0
        return work

    def next_deadline_ns(self) -> int:
        """Never: it only reacts to input."""
        return NEVER_NS

    def poll(self, handler: Callable[[int, Buffer], None], limit: int = 100) -> int:
        """Deliver the service's messages. The bridge does not report their positions in the egress."""
        count = 0
        while self._answers and count < limit:
            handler(0, self._answers.popleft())
            count += 1
        return count

    def offer(self, *parts: Buffer) -> int:
        """Offer one message to the bridge. Returns its number in this session, from 1."""
        if not self.is_connected:
            return NOT_CONNECTED
        if len(self._unsent) > _UNSENT_MAX:
            return BACK_PRESSURED
        self._write(_OFFER, b"".join(parts))
        self._flush()
        self._offered += 1
        return self._offered

    def given_back(self) -> Sequence[int]:
        """The numbers that `offer` returned for messages that were not taken. Each is returned once."""
        numbers, self._given_back = self._given_back, []
        return numbers

    def close(self) -> None:
        """Make the bridge close the session with the cluster."""
        if self.is_closed:
            return
        self._write(_CLOSE, b"")
        self._flush()
        self._connection.close()
        self._end(None)

    # --- for the network ---

    def on_connected(self, connection: Connection) -> None:  # noqa: ARG002 - the one that was dialled
        """Send the waiting bytes."""
        self._is_open = True
        self._flush()

    def on_data(self, data: memoryview) -> None:
        """Handle all complete frames."""
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
        """Send the waiting bytes."""
        self._work += 1
        self._flush()

    def on_closed(self, reason: str) -> None:
        """The bridge is gone."""
        self._work += 1
        self._end(TimeoutExpired(f"the bridge closed the connection: {reason}"))

    def _take(self, kind: int, body: bytes) -> None:
        if kind == _ANSWER:
            self._answers.append(body)
        elif kind == _NEW_LEADER:
            term_id, _, session_id = _LEADER.unpack(body)
            self.leadership_term_id, self.session_id = TermId(term_id), SessionId(session_id)
            if not self.is_connected:
                self.opened_term_id = self.leadership_term_id
            self.is_connected = True
        elif kind == _GIVEN_BACK:
            self._given_back.append(*_NUMBER.unpack(body))
        elif kind == _ERROR:
            self._last_error = printed(body)
        elif kind == _END:
            earlier = f"; before that, {self._last_error}" if self._last_error else ""
            self._connection.close()
            # The bridge does not report whether the cluster or the client gave the session up.
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
