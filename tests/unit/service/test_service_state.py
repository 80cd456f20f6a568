"""The state of the shipped services in snapshots, and the service of timers."""

import struct
from collections.abc import Mapping

import pytest
from hypothesis import given, strategies as st

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.service.api import ClientSession, ClusterRole, ClusterTimeUnit
from upheaval_node.service.loader import SHORT_NAMES, load_service
from upheaval_node.service.services.encoding import (
    Operation,
    Request,
    Response,
    Status,
    decode_response,
    encode_request,
)
from upheaval_node.service.services.operations import OperationService
from upheaval_node.service.services.state import Record, read_state, write_state
from upheaval_node.service.services.timers import FIRED, Timers
from upheaval_node.service.snapshots import StateReader, StateWriter

MAX_LENGTH = 128 * 1024
VALUES = st.none() | st.binary(max_size=6) | st.integers(0, 40).map(lambda delay: struct.pack("<q", delay))
REQUESTS = st.builds(
    Request, st.integers(0, 99), st.integers(1, 11), st.sampled_from(["a", "ü", ""]), VALUES, st.none() | st.just(b"b")
)


class Clock:
    """The cluster of one service on its own: time, and the timers that it asked for."""

    member_id = 0
    role = ClusterRole.LEADER
    log_position = 0
    time_unit = ClusterTimeUnit.MILLIS
    client_sessions: Mapping[int, ClientSession] = {}

    def __init__(self) -> None:
        self.time = 1000
        self.scheduled: dict[int, int] = {}

    def client_session(self, session_id: int) -> ClientSession | None:
        return None

    def close_client_session(self, session_id: int) -> bool:
        return False

    def schedule_timer(self, correlation_id: int, deadline: int) -> bool:
        self.scheduled[correlation_id] = deadline
        return True

    def cancel_timer(self, correlation_id: int) -> bool:
        return self.scheduled.pop(correlation_id, None) is not None

    def offer(self, *parts: object) -> int:
        return 1


def loaded(name: str, messages: list[bytes] | None = None) -> OperationService:
    service = load_service(name)
    assert isinstance(service, OperationService)
    service.on_start(Clock(), None if messages is None else StateReader(messages))
    return service


def state_of(service: OperationService) -> list[bytes]:
    writer = StateWriter(MAX_LENGTH)
    service.on_take_snapshot(writer)
    return writer.messages


@pytest.mark.parametrize("name", sorted(SHORT_NAMES))
@given(requests=st.lists(REQUESTS, max_size=30), later=st.lists(REQUESTS, max_size=10))
def test_a_service_that_starts_from_a_snapshot_does_what_the_other_does(
    name: str, requests: list[Request], later: list[Request]
) -> None:
    service = loaded(name)
    for request in requests:
        service.perform(encode_request(request), 96)
    copy = loaded(name, state_of(service))
    assert state_of(copy) == state_of(service)
    for request in later:
        assert copy.perform(encode_request(request), 96) == service.perform(encode_request(request), 96)


@given(st.data())
def test_a_state_that_is_not_as_it_was_written_is_refused(data: st.DataObject) -> None:
    writer = StateWriter(MAX_LENGTH)
    write_state(writer, [Record(1, f"key-{number}", bytes([number]) * 300) for number in range(40)])
    messages = writer.messages
    assert len(messages) > 3
    index = data.draw(st.integers(0, len(messages) - 1))
    if data.draw(st.booleans()):
        del messages[index]
    else:
        changed = bytearray(messages[index])
        changed[data.draw(st.integers(0, len(changed) - 1))] ^= data.draw(st.integers(1, 255))
        messages[index] = bytes(changed)
    with pytest.raises(DecodeError):
        _ = list(read_state(StateReader(messages)))


def test_a_service_refuses_the_state_of_another() -> None:
    register = loaded("register")
    register.perform(encode_request(Request(1, Operation.WRITE, "k", b"v")), 96)
    for name in ("echo", "append", "timers", "ledger"):
        with pytest.raises(DecodeError):
            loaded(name, state_of(register))


def test_a_message_of_a_snapshot_has_a_limit() -> None:
    writer = StateWriter(100)
    assert 0 < writer.offer(b"a", b"b" * 99) < writer.offer(b"")
    with pytest.raises(UsageError):
        writer.offer(b"a" * 101)
    assert writer.messages == [b"a" + b"b" * 99, b""]


# --- timers ---


def run(service: Timers, operation: Operation, operation_id: int, number: int | None = None) -> Response:
    value = None if number is None else struct.pack("<q", number)
    return decode_response(service.execute(encode_request(Request(operation_id, operation, value=value)), 96))


def timers() -> tuple[Timers, Clock]:
    service = Timers()
    clock = Clock()
    service.on_start(clock, None)
    return service, clock


def test_a_timer_is_scheduled_in_cluster_time_and_read_when_it_has_fired() -> None:
    service, clock = timers()
    assert run(service, Operation.SCHEDULE_TIMER, 7, 250).value == struct.pack("<q", 1250)
    assert clock.scheduled == {7: 1250}
    assert run(service, Operation.READ_TIMERS, 8).values == ()
    service.on_timer_event(7, 1260)
    service.on_timer_event(7, 1270)
    service.on_timer_event(99, 1280)
    fired = run(service, Operation.READ_TIMERS, 9).values
    assert fired is not None
    assert [FIRED.unpack(value) for value in fired] == [(7, 1250, 1270, 2), (99, -1, 1280, 1)]


def test_a_timer_is_cancelled_until_it_has_fired() -> None:
    service, clock = timers()
    run(service, Operation.SCHEDULE_TIMER, 7, 250)
    run(service, Operation.SCHEDULE_TIMER, 8, 250)
    assert run(service, Operation.CANCEL_TIMER, 9, 7).status is Status.OK
    assert clock.scheduled == {8: 1250}
    service.on_timer_event(8, 1250)
    for timer_id in (7, 8, 5):
        assert run(service, Operation.CANCEL_TIMER, 10, timer_id).status is Status.CAS_FAILED


@pytest.mark.parametrize(("operation_id", "number"), [(7, 1), (8, -1), (8, 1 << 41), (8, None)])
def test_a_request_for_a_timer_that_makes_no_sense_is_refused(operation_id: int, number: int | None) -> None:
    service, clock = timers()
    run(service, Operation.SCHEDULE_TIMER, 7, 250)
    assert run(service, Operation.SCHEDULE_TIMER, operation_id, number).status is Status.ERROR
    assert clock.scheduled == {7: 1250}
