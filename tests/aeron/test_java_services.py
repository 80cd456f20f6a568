"""The services in Java beside our own: the same orders give the same answers, requests to the cluster and snapshots."""

import struct
import subprocess
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final, cast

import pytest

from aeron_jar import member_classes
from unit.service.test_service_state import MAX_LENGTH, Clock
from upheaval.workload import SILENT_SERVICES
from upheaval_node.service.api import ClientSession
from upheaval_node.service.loader import load_service
from upheaval_node.service.services.encoding import (
    MAX_KEY_LENGTH,
    MAX_VALUE_LENGTH,
    Operation,
    Request,
    Status,
    decode_response,
    encode_request,
)
from upheaval_node.service.services.operations import OperationService
from upheaval_node.service.snapshots import StateReader, StateWriter

Frame = tuple[bytes, bytes]
"""Kind and body, as `ServiceConsole.java` describes them."""

STREAMS: Final = 8
ORDERS: Final = 400
_HEAD: Final = struct.Struct(">cI")
_ENTRY: Final = struct.Struct("<qq")
_LONG: Final = struct.Struct("<q")
_CREDIT: Final = bytes([Operation.CREDIT])
# Texts that sort differently by UTF-16 and by code points, and one that is longer than a run of a snapshot's records.
_NAMES: Final = ("a", "b", "ü", "\ufffd", "\U0001f600", "", "x" * MAX_KEY_LENGTH)
_OPERATIONS: Final = {
    "workbench": (1, 2, 3, 4, 5, 6),
    "ledger": (10, 10, 10, 10, 11, 12),
    "timers": (7, 7, 8, 9),
}


class Orders:
    """Draws orders of clients, of the log and of timers; about one in eight is damaged or out of place."""

    def __init__(self, service: str, random: Random) -> None:
        self.service = service
        self.random = random
        self.offered: list[bytes] = []
        self.position = 0

    def next(self) -> Frame:
        random = self.random
        self.position += 32 * random.randint(1, 40)
        entry = _ENTRY.pack(self.position // 7, self.position)
        if self.offered and random.random() < 0.4:
            return b"m", entry + self.offered.pop(0)
        if self.service == "timers" and random.random() < 0.2:
            return b"t", _ENTRY.pack(random.randint(0, 300), self.position)
        message = encode_request(self._request())
        if random.random() < 0.12:
            message = self._damaged(message)
        is_of_service = random.random() < (0.5 if message[8:9] == _CREDIT else 0.02)
        return b"m" if is_of_service else b"q", entry + message

    def _request(self) -> Request:
        random = self.random
        of_service = random.random() < 0.95
        operation = random.choice(_OPERATIONS.get(self.service, (1,))) if of_service else random.randint(0, 255)
        key = random.choice(_NAMES)
        expected = random.choice((None, b"7", b"7", *(name.encode() for name in _NAMES), b"\xff"))
        return Request(random.randint(-3, 300), operation, key, self._value(), expected)

    def _value(self) -> bytes | None:
        random = self.random
        if self.service == "workbench":
            length = random.choice((0, 1, 1, 5, 300, MAX_VALUE_LENGTH))
            return random.choice((None, b"7", b"7", random.randbytes(length), random.randbytes(length)))
        number = random.choice((*range(0, 300, 12), *range(5), -1, 1 << 40, (1 << 40) + 1))
        return random.choice((None, b"7", *[_LONG.pack(number)] * 12))

    def _damaged(self, message: bytes) -> bytes:
        random = self.random
        if random.random() < 0.4:
            return message[: random.randint(0, min(len(message), 30))]
        changed = bytearray(message)
        changed[random.randrange(8, min(len(message), 40))] = random.randint(0, 255)
        return bytes(changed)


class Ours(Clock):
    """One of our services, and the frames that come of its orders."""

    def __init__(self, name: str, told: Callable[[Frame], None]) -> None:
        super().__init__()
        self._name = name
        self._told = told
        self._service = self._made(None)

    def _made(self, image: StateReader | None) -> OperationService:
        service = load_service(self._name)
        assert isinstance(service, OperationService)
        service.on_start(self, image)
        return service

    def offer(self, *parts: object) -> int:
        self._told((b"o", b"".join(part for part in parts if isinstance(part, bytes))))
        return 1

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        self._told((b"s", _ENTRY.pack(correlation_id, deadline)))
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        self._told((b"c", _LONG.pack(correlation_id)))
        return True

    def act(self, order: Frame) -> None:
        kind, body = order
        first, second = _ENTRY.unpack_from(body)
        if kind == b"t":
            self._service.on_timer_event(first, second)
            return
        self.time = first
        message = body[_ENTRY.size :]
        if kind == b"q" and self._name in SILENT_SERVICES:
            self._service.on_session_message(cast("ClientSession", object()), first, memoryview(message), second)
        elif kind == b"q":
            self._told((b"r", self._service.execute(message, second)))
        else:
            self._tell_of_service(message, first, second)

    def _tell_of_service(self, message: bytes, time: int, position: int) -> None:
        try:
            self._service.on_session_message(None, time, memoryview(message), position)
        except Exception:  # noqa: BLE001 - the service in Java has to raise there, too
            self._told((b"e", b""))

    def snapshot(self) -> list[bytes]:
        writer = StateWriter(MAX_LENGTH)
        self._service.on_take_snapshot(writer)
        return writer.messages

    def restart(self, messages: list[bytes]) -> None:
        self._service = self._made(StateReader(messages))


def stream(service: str, seed: int) -> tuple[list[Frame], list[Frame]]:
    """What to tell the service in Java, and what it should say. Halfway it is restarted from its snapshot."""
    orders = Orders(service, Random(f"{service} {seed}"))
    said: list[Frame] = []

    def tell(frame: Frame) -> None:
        said.append(frame)
        if frame[0] == b"o":
            orders.offered.append(frame[1])

    ours = Ours(service, tell)
    asked: list[Frame] = [(b"n", service.encode())]
    for number in range(ORDERS):
        if number == ORDERS // 2:
            messages = ours.snapshot()
            asked += [(b"w", b""), (b"n", service.encode()), *((b"l", message) for message in messages)]
            said += [(b"w", message) for message in messages]
            said += [(b"l", bytes([message is messages[-1]])) for message in messages]
            ours.restart(messages)
        order = orders.next()
        asked.append(order)
        ours.act(order)
    asked.append((b"w", b""))
    said += [(b"w", message) for message in ours.snapshot()]
    return asked, said


def said_by_java(asked: list[Frame]) -> list[Frame]:
    classes = str(member_classes(tests=True))
    command = ("java", "-Xmx192m", "-XX:+UseSerialGC", "-cp", classes, "upheaval.services.ServiceConsole")
    orders = b"".join(_HEAD.pack(kind, len(body)) + body for kind, body in asked)
    done = subprocess.run(
        [*command, "upheaval.services.ServiceConsole"], input=orders, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    frames = []
    offset = 0
    while offset < len(done.stdout):
        kind, length = _HEAD.unpack_from(done.stdout, offset)
        offset += _HEAD.size + length
        frames.append((kind, done.stdout[offset - length : offset]))
    return frames


@pytest.mark.parametrize("service", sorted(_OPERATIONS))
def test_a_service_in_java_is_ours_byte_for_byte(service: str) -> None:
    streams = [stream(service, seed) for seed in range(STREAMS)]
    expected = [frame for _, said in streams for frame in said]
    got = said_by_java([frame for asked, _ in streams for frame in asked])
    for number, (theirs, ours) in enumerate(zip(got, expected, strict=False)):
        assert theirs == ours, f"frame {number}: {theirs[0]!r} {shown(theirs)}, ours {ours[0]!r} {shown(ours)}"
    assert len(got) == len(expected)
    assert_that_much_was_seen(service, expected)


def test_the_tally_in_java_is_ours_byte_for_byte() -> None:
    streams = [stream("tally", seed) for seed in range(STREAMS)]
    expected = [frame for _, said in streams for frame in said]
    assert said_by_java([frame for asked, _ in streams for frame in asked]) == expected
    kinds = Counter(kind for kind, _ in expected)
    assert kinds[b"o"] > 5 * STREAMS
    assert set(kinds) == {b"o", b"w", b"l"}


def assert_that_much_was_seen(service: str, frames: list[Frame]) -> None:
    answers = [decode_response(body) for kind, body in frames if kind == b"r"]
    outcomes = Counter((each.operation, each.status) for each in answers)
    for operation in set(_OPERATIONS[service]) - {Operation.CREDIT}:
        assert outcomes[operation, Status.OK] > 20, outcomes
    assert len({each.error for each in answers if each.status is Status.ERROR}) > 10
    kinds = Counter(kind for kind, _ in frames)
    assert kinds[b"w"] > 3 * STREAMS
    # Offers; timers that are scheduled and cancelled.
    wanted = {"workbench": b"", "ledger": b"o", "timers": b"sc"}[service]
    assert all(kinds[bytes([kind])] > 5 for kind in wanted), kinds
    refused = {"workbench": Operation.COMPARE_AND_SET, "ledger": Operation.TRANSFER, "timers": Operation.CANCEL_TIMER}
    assert outcomes[refused[service], Status.CAS_FAILED] > 5, outcomes


def shown(frame: Frame) -> str:
    kind, body = frame
    return str(decode_response(body))[:300] if kind == b"r" else body[:60].hex()


def test_a_damaged_snapshot_is_never_taken_for_a_whole_one() -> None:
    ours = Ours("workbench", lambda _: None)
    for number in range(200):
        request = Request(number, Operation.WRITE, f"k{number}", bytes(40))
        ours.act((b"q", _ENTRY.pack(0, 0) + encode_request(request)))
    messages = ours.snapshot()
    assert len(messages) > 3
    changed = bytearray(messages[0])
    changed[-1] ^= 1
    damages = [messages[1:], [messages[0], *messages], [bytes(changed), *messages[1:]], messages[:-1]]
    asked = []
    for damaged in damages:
        asked += [(b"n", b"workbench"), *((b"l", message) for message in damaged)]
    said = said_by_java(asked)
    assert (b"l", b"\1") not in said
    assert [kind for kind, _ in said].count(b"e") == len(damages) - 1
