"""Requests and responses of the shipped services survive their encoding, and no bytes break the decoders."""

from contextlib import suppress

import pytest
from hypothesis import given, strategies as st

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.service.services.encoding import (
    MAX_KEY_LENGTH,
    MAX_VALUE_LENGTH,
    Operation,
    Request,
    Response,
    Status,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    peek_operation_id,
)

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
VALUES = st.none() | st.binary(max_size=40)
REQUESTS = st.builds(Request, INT64, st.integers(0, 255), st.text(max_size=20), VALUES, VALUES)
OUTCOMES = (
    st.tuples(INT64, st.integers(0, 255), st.sampled_from([Status.OK, Status.CAS_FAILED]), INT64, VALUES).map(
        lambda fields: Response(*fields)
    )
    | st.tuples(INT64, INT64, st.lists(st.binary(max_size=9), max_size=5)).map(
        lambda fields: Response(fields[0], Operation.READ_LIST, Status.OK, fields[1], values=tuple(fields[2]))
    )
    | st.tuples(INT64, st.integers(0, 255), INT64, st.text(max_size=20)).map(
        lambda fields: Response(fields[0], fields[1], Status.ERROR, fields[2], error=fields[3])
    )
)


@given(REQUESTS)
def test_a_request_comes_back_as_it_was_and_names_its_operation(request: Request) -> None:
    encoded = encode_request(request)
    assert decode_request(memoryview(encoded)) == request
    assert peek_operation_id(encoded) == request.operation_id


@given(OUTCOMES)
def test_a_response_comes_back_as_it_was(response: Response) -> None:
    assert decode_response(memoryview(encode_response(response))) == response


@given(REQUESTS, st.data())
def test_a_request_that_was_cut_or_extended_is_refused(request: Request, data: st.DataObject) -> None:
    encoded = encode_request(request)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    for broken in (encoded[:cut], encoded + b"x"):
        with pytest.raises(DecodeError):
            decode_request(broken)


@given(st.binary(max_size=80))
def test_no_bytes_break_the_decoders(noise: bytes) -> None:
    for decode in (decode_request, decode_response):
        with suppress(DecodeError):
            assert decode(noise) is not None


@given(OUTCOMES, st.data())
def test_a_response_that_was_cut_is_refused(response: Response, data: st.DataObject) -> None:
    encoded = encode_response(response)
    with pytest.raises(DecodeError):
        decode_response(encoded[: data.draw(st.integers(0, len(encoded) - 1))])


def test_absent_and_empty_are_not_the_same() -> None:
    absent, empty = Request(1, Operation.WRITE, "k"), Request(1, Operation.WRITE, "k", b"")
    assert encode_request(absent) != encode_request(empty)
    assert decode_request(encode_request(empty)).value == b""


@pytest.mark.parametrize(
    "request_",
    [
        Request(1, Operation.WRITE, "k" * (MAX_KEY_LENGTH + 1), b""),
        Request(1, Operation.WRITE, "k", bytes(MAX_VALUE_LENGTH + 1)),
        Request(1, 256, "k"),
    ],
)
def test_what_no_service_would_take_is_refused_where_it_is_made(request_: Request) -> None:
    with pytest.raises(UsageError):
        encode_request(request_)


def test_the_longest_key_and_the_longest_value_are_taken() -> None:
    request = Request(1, Operation.WRITE, "k" * MAX_KEY_LENGTH, bytes(MAX_VALUE_LENGTH))
    assert decode_request(encode_request(request)) == request
