"""The shipped services do what their operations promise, alike in every copy, whatever a client sends."""

import pytest
from hypothesis import given, strategies as st

from upheaval_node.service.services.append import MAX_LIST_BYTES, Append
from upheaval_node.service.services.echo import Echo
from upheaval_node.service.services.encoding import (
    MAX_VALUE_LENGTH,
    Operation,
    Request,
    Response,
    Status,
    decode_response,
    echo_response,
    encode_request,
)
from upheaval_node.service.services.operations import OperationService
from upheaval_node.service.services.register import Register
from upheaval_node.service.services.workbench import Workbench

KEYS = st.sampled_from(["a", "b"])
VALUES = st.none() | st.sampled_from([b"", b"1", b"2"])
REQUESTS = st.builds(Request, st.integers(0, 99), st.integers(0, 7), KEYS, VALUES, VALUES)


def run(service: OperationService, request: Request, position: int = 96) -> Response:
    return decode_response(service.execute(encode_request(request), position))


def test_echo_gives_back_the_value_with_the_position_of_its_entry() -> None:
    response = run(Echo(), Request(7, Operation.ECHO, value=b"hello"), position=4096)
    assert response == Response(7, Operation.ECHO, Status.OK, 4096, b"hello")


def test_a_register_reads_what_was_written_last() -> None:
    service = Register()
    assert run(service, Request(1, Operation.READ, "k")).value is None
    run(service, Request(2, Operation.WRITE, "k", b"one"))
    run(service, Request(3, Operation.WRITE, "other", b"two"))
    assert run(service, Request(4, Operation.READ, "k")).value == b"one"


def test_compare_and_set_sets_only_what_is_as_expected() -> None:
    service = Register()
    made = run(service, Request(1, Operation.COMPARE_AND_SET, "k", b"one", expected=None))
    assert made.status is Status.OK
    failed = run(service, Request(2, Operation.COMPARE_AND_SET, "k", b"two", expected=b"other"))
    assert (failed.status, failed.value) == (Status.CAS_FAILED, b"one")
    run(service, Request(3, Operation.COMPARE_AND_SET, "k", b"two", expected=b"one"))
    assert service.registers.values == {"k": b"two"}


def test_append_keeps_order_and_lists_apart() -> None:
    service = Append()
    for number, key in enumerate(["a", "b", "a"]):
        run(service, Request(number, Operation.APPEND, key, str(number).encode()))
    assert run(service, Request(3, Operation.READ_LIST, "a")).values == (b"0", b"2")
    assert run(service, Request(4, Operation.READ_LIST, "c")).values == ()


def test_a_list_never_outgrows_one_response() -> None:
    service = Append()
    most = bytes(MAX_VALUE_LENGTH)
    fits, left = divmod(MAX_LIST_BYTES, len(most) + 4)
    values = [most] * fits + [bytes(left - 4)]
    assert {run(service, Request(1, Operation.APPEND, "k", value)).status for value in values} == {Status.OK}
    assert run(service, Request(2, Operation.APPEND, "k", b"")).status == Status.ERROR
    assert run(service, Request(3, Operation.READ_LIST, "k")).values == tuple(values)


def test_the_workbench_serves_every_operation_but_those_on_timers_and_accounts() -> None:
    service = Workbench()
    for operation in [each for each in Operation if each < Operation.SCHEDULE_TIMER]:
        assert run(service, Request(1, operation, "k", b"v", expected=None)).status is not Status.ERROR


@pytest.mark.parametrize(
    ("payload", "operation_id"),
    [
        (b"", -1),
        (b"1234567", -1),
        (b"\x05" + bytes(7), 5),
        (encode_request(Request(6, Operation.READ, "k")) + b"?", 6),
        (encode_request(Request(7, 200, "k")), 7),
        (encode_request(Request(8, Operation.WRITE, "k")), 8),
    ],
)
def test_a_bad_request_gets_an_error_that_names_it_and_changes_nothing(payload: bytes, operation_id: int) -> None:
    service = Workbench()
    response = decode_response(service.execute(payload, 64))
    assert (response.status, response.operation_id) == (Status.ERROR, operation_id)
    assert response.error
    assert (service.registers.values, service.lists.values) == ({}, {})


@given(st.lists(REQUESTS.map(encode_request) | st.binary(max_size=30), max_size=30))
def test_two_copies_fed_the_same_log_answer_and_end_alike(log: list[bytes]) -> None:
    first, second = Workbench(), Workbench()
    for position, payload in enumerate(log):
        assert first.execute(payload, position) == second.execute(memoryview(payload), position)
    assert first.registers.values == second.registers.values
    assert first.lists.values == second.lists.values


@given(REQUESTS, st.integers(0, 1 << 40))
def test_the_short_way_of_echo_answers_as_the_long_one_or_not_at_all(request: Request, position: int) -> None:
    payload = encode_request(request)
    short = echo_response(memoryview(payload), position)
    if (
        request.operation == Operation.ECHO
        and request.value is not None
        and not request.key
        and request.expected is None
    ):
        assert short is not None
    if short is not None:
        assert short == Echo().execute(payload, position)
