"""Members of Aeron's own with our member program, and clients of them through our bridge program."""

import json
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from aeron_jar import VERSION, jar, member_classes
from upheaval.records.added_lines import AddedLines
from upheaval.runtimes.ports import choose_base_port
from upheaval.shared_classes import sharing_options
from upheaval.waits import wait_until
from upheaval_node.counters import CONTROL_TOGGLE, METADATA_LENGTH, VALUE_LENGTH, Counters
from upheaval_node.files.cnc import HEADER_LENGTH, read_header
from upheaval_node.service.services.encoding import Request, Response, decode_response, encode_request

TIMEOUT_S: Final = 60.0
CONNECTS: Final = 6
_OPENS: Final = (
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
)
_SMALL: Final = ("-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LENGTH: Final = struct.Struct("<i")
LEADER: Final = struct.Struct("<qiq")
PROVOKED: Final = "upheaval.ProvokedService"
"""The service that throws where a message tells it to."""


def program(name: str, *arguments: str, version: str = VERSION, tests: bool = False) -> list[str]:
    """What runs a class of `images/aeron`, with those of its tests where wanted."""
    class_path = f"{jar(version)}:{member_classes(version, tests=tests)}"
    shared = sharing_options(Path(shutil.which("java") or "java"), jar(version))
    return ["java", *_OPENS, *_SMALL, *shared, "-cp", class_path, f"upheaval.{name}", *arguments]


def aeron_directory(folder: Path) -> Path:
    """A directory in shared memory for a media driver of a test, by the name of its folder."""
    return Path("/dev/shm") / f"upheaval-test-{os.getpid()}-{folder.name}"


class JavaMember:
    """The only member of its cluster, or one of those that `cluster_of` makes.

    Ends with the `with`, and leaves nothing in shared memory.
    """

    def __init__(self, folder: Path, *, service: str = "workbench", version: str = VERSION) -> None:
        self.folder = folder
        self.version = version
        self.aeron = aeron_directory(folder)
        base = choose_base_port(1)
        endpoints = [f"127.0.0.1:{base + number}" for number in range(6)]
        self.id = 0
        self.endpoints = endpoints[:5]
        self.ingress = f"0={endpoints[0]}"
        self.properties = {
            "member.id": "0",
            "members": f"0,{','.join(self.endpoints)}",
            "folder": str(folder),
            "aeron.dir": str(self.aeron),
            "replication.endpoint": endpoints[5],
            "service": service,
            "sync.level": "0",
            "log.term.length": str(1 << 20),
            "run.id": "5eed",
            "leader.heartbeat.interval.ms": "200",
            "leader.heartbeat.timeout.ms": "5000",
            "election.timeout.ms": "1000",
            "election.status.interval.ms": "50",
            "startup.canvass.timeout.ms": "10000",
            "termination.timeout.ms": "5000",
            "session.timeout.ms": "30000",
            "max.sessions": "20",
        }
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns at once."""
        self.folder.mkdir(exist_ok=True)
        file = self.folder / "member.properties"
        file.write_text(properties_text(self.properties), encoding="utf-8")
        command = program("Member", str(file), version=self.version, tests=self.properties["service"] == PROVOKED)
        with (self.folder / "all.log").open("ab") as log, (self.folder / "out").open("ab") as out:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=log)

    def start_and_lead(self) -> None:
        """Returns when it serves clients."""
        begun = self.count("process-start")
        self.start()
        self.wait(lambda: self.count("process-start") > begun, "the member does not start")
        self.wait(lambda: self.leads, "the member does not lead")

    @property
    def leads(self) -> bool:
        """Whether it is the leader and its election is over."""
        told = self.last("election_state")
        return (told.get("state"), told.get("leader_member_id")) == ("CLOSED", self.id)

    def stop(self) -> int:
        """End it by SIGTERM; returns its exit status."""
        assert self.process is not None
        self.process.terminate()
        return self.ended()

    def ended(self) -> int:
        """Its exit status, when it has ended."""
        assert self.process is not None
        return self.process.wait(TIMEOUT_S)

    def trace(self) -> list[dict[str, Any]]:
        """The events so far."""
        return [json.loads(line) for line in AddedLines([self.folder / "trace.jsonl"])() if line]

    def count(self, event: str) -> int:
        """How many events of that kind the trace has."""
        return sum(each["event"] == event for each in self.trace())

    def last(self, event: str) -> dict[str, Any]:
        """The last event of that kind, empty where there is none."""
        return next((each for each in reversed(self.trace()) if each["event"] == event), {})

    def order(self, toggle: int) -> None:
        """Set the control toggle, as an operator does."""
        found = self.counters().find(CONTROL_TOGGLE)
        assert found is not None
        with (self.aeron / "cnc.dat").open("r+b", buffering=0) as file:
            header = read_header(file.read(HEADER_LENGTH))
            assert header is not None
            place = header.counters_values_offset + found.id * VALUE_LENGTH
            os.pwrite(file.fileno(), struct.pack("<q", toggle), place)

    def counter(self, type_id: int) -> int:
        """What a counter of the member says now."""
        found = self.counters().find(type_id)
        assert found is not None
        return found.get()

    def counters(self) -> Counters:
        """A copy of all of them."""
        content = (self.aeron / "cnc.dat").read_bytes()
        header = read_header(content[:HEADER_LENGTH])
        assert header is not None
        count = header.layout.counters_values_length // VALUE_LENGTH
        values = bytearray(content[header.counters_values_offset :][: count * VALUE_LENGTH])
        metadata = bytearray(content[header.counters_metadata_offset :][: count * METADATA_LENGTH])
        return Counters(memoryview(values), memoryview(metadata))

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Until the condition holds; fails with the member's last lines when it ends before."""

        def look() -> bool:
            assert self.process is not None
            if condition():
                return True
            status = self.process.poll()
            assert status is None, f"{what}: it ended with status {status}\n{self.last_lines()}"
            return False

        wait_until(look, timeout_s=TIMEOUT_S, describe=lambda: f"{what}\n{self.last_lines()}", interval_s=0.05)

    def last_lines(self) -> str:
        """The end of its log."""
        log = self.folder / "all.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.aeron, ignore_errors=True)


def cluster_of(folder: Path, count: int) -> list[JavaMember]:
    """Members of one cluster, with time-outs of an impatient one."""
    members = [JavaMember(folder / f"member-{number}") for number in range(count)]
    told = "|".join(f"{number},{','.join(member.endpoints)}" for number, member in enumerate(members))
    ingress = ",".join(f"{number}={member.endpoints[0]}" for number, member in enumerate(members))
    for number, member in enumerate(members):
        member.id = number
        member.ingress = ingress
        member.properties |= {"members": told, "member.id": str(number), "leader.heartbeat.timeout.ms": "2000"}
    return members


def properties_text(properties: Mapping[str, str]) -> str:
    """A properties file, escaped as Java wants it."""

    def escaped(text: str) -> str:
        return "".join(f"\\{char}" if char in "\\:= " else char for char in text)

    return "".join(f"{escaped(key)}={escaped(value)}\n" for key, value in properties.items())


class Bridge:
    """The bridge program, or `provoked` that of the tests. Ends with the `with`."""

    def __init__(self, folder: Path, *, provoked: bool = False) -> None:
        self.aeron = aeron_directory(folder / "bridge")
        self._log = folder / "bridge.log"
        with self._log.open("ab") as log:
            name = "ProvokedBridge" if provoked else "Bridge"
            command = program(name, str(self.aeron), "127.0.0.1", tests=provoked)
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        assert self.process.stdout is not None
        said = self.process.stdout.readline().split()
        assert said[:1] == [b"BRIDGE"], (said, self._log.read_text())
        self.port = int(said[1])

    def session(self, ingress: str) -> "BridgeSession":
        """A session that is connected. Where members get no processor, an attempt of the client may time out."""
        for _ in range(CONNECTS):
            session = BridgeSession(self.port)
            kind, body = session.connect(ingress)
            if kind == b"L":
                return session
            session.close()
            assert b"cluster connect timeout" in body, (kind, body)
        raise AssertionError(f"{CONNECTS} attempts to connect have timed out: {body!r}")

    def end(self) -> int:
        """End it as who started it does: by the end of its input. Returns its exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
        shutil.rmtree(self.aeron, ignore_errors=True)


class BridgeSession:
    """One connection to a bridge; every call waits for its answer."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
        self._file = self._socket.makefile("rb")
        self.leadership_term_id = self.leader = self.session_id = -1

    def connect(self, ingress: str) -> tuple[bytes, bytes]:
        """To a cluster; what the bridge says of it."""
        self.tell(b"C", ingress.encode())
        kind, body = self.hear()
        if kind == b"L":
            self.leadership_term_id, self.leader, self.session_id = LEADER.unpack(body)
        return kind, body

    def tell(self, kind: bytes, body: bytes = b"") -> None:
        """Send one frame."""
        self._socket.sendall(_LENGTH.pack(len(body) + 1) + kind + body)

    def hear(self) -> tuple[bytes, bytes]:
        """The next frame: kind and body; both empty at the end of the connection."""
        head = self._file.read(_LENGTH.size)
        if not head:
            return b"", b""
        frame = self._file.read(*_LENGTH.unpack(head))
        return frame[:1], frame[1:]

    def ask(self, request: Request) -> Response:
        """Send a request; the answer to it."""
        self.tell(b"O", encode_request(request))
        kind, body = self.hear()
        assert kind == b"R", (kind, body)
        response = decode_response(body)
        assert response.operation_id == request.operation_id
        return response

    def close(self) -> None:
        """The connection; the session ends with it."""
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
