"""The bytes of requests and responses of the shipped services.

All of them share one little-endian encoding with one form per value, so that equal requests have equal bytes:

    request   int64 operation id | uint8 operation | uint8 version | uint16 key length | int32 value length |
              int32 expected length | key (UTF-8) | value | expected
    response  int64 operation id | int64 log position | uint8 operation | uint8 status | uint8 version | uint8 shape |
              uint32 count | count times (uint32 length, bytes)

A length of -1 means that the value is absent, which differs from an empty value. The client chooses the operation id,
which must be unique in a history: checkers use it to find an operation in the recorded log. This module knows nothing
of what the operations do.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from upheaval_node.errors import DecodeError, UsageError
from upheaval_node.ports import Buffer

VERSION: Final = 1
MAX_KEY_LENGTH: Final = 1024
MAX_VALUE_LENGTH: Final = 64 * 1024
MAX_RESPONSE_LENGTH: Final = 1024 * 1024

UNKNOWN_OPERATION_ID: Final = -1
ABSENT: Final = -1

_REQUEST: Final = struct.Struct("<qBBHii")
_RESPONSE: Final = struct.Struct("<qqBBBBI")
_RESPONSE_OF_ONE: Final = struct.Struct("<qqBBBBII")
_LENGTH: Final = struct.Struct("<I")
_OPERATION_ID: Final = struct.Struct("<q")

_SHAPE_NOTHING: Final = 0
_SHAPE_VALUE: Final = 1
_SHAPE_LIST: Final = 2


class Operation(IntEnum):
    """The operation codes of requests and responses."""

    ECHO = 1
    READ = 2
    WRITE = 3
    COMPARE_AND_SET = 4
    APPEND = 5
    READ_LIST = 6
    SCHEDULE_TIMER = 7
    CANCEL_TIMER = 8
    READ_TIMERS = 9
    TRANSFER = 10
    BALANCES = 11
    CREDIT = 12


class Status(IntEnum):
    """The outcome of an operation: CAS_FAILED for a comparison that did not hold, ERROR with the reason as the
    value.
    """

    OK = 0
    CAS_FAILED = 1
    ERROR = 2


# Needed by `echo_response` for every message, and compiled code looks up enumeration members by name each time.
_ECHO: Final = int(Operation.ECHO)
_OK: Final = int(Status.OK)


class Request(NamedTuple):
    """One operation. `operation` is an `Operation`, or an unknown code as it arrived."""

    operation_id: int
    operation: int
    key: str = ""
    value: bytes | None = None
    expected: bytes | None = None


class Response(NamedTuple):
    """The outcome of one operation.

    `value` is the value that was read, or the current value after a failed compare-and-set. `values` is the list that
    was read; `error` is the text of an ERROR. `position` is the log position of the entry, as the service saw it.
    """

    operation_id: int
    operation: int
    status: Status
    position: int
    value: bytes | None = None
    values: tuple[bytes, ...] | None = None
    error: str = ""


def encode_request(request: Request) -> bytes:
    """Encode a request. Raises `UsageError` for a key or value that is too long, or an operation code that is not a
    byte.
    """
    key = request.key.encode()
    value, expected = request.value, request.expected
    longest = max(len(value or b""), len(expected or b""))
    if len(key) > MAX_KEY_LENGTH or longest > MAX_VALUE_LENGTH:
        raise UsageError(f"key of {len(key)}, value of {longest} bytes: at most {MAX_KEY_LENGTH}, {MAX_VALUE_LENGTH}")
    if not 0 <= request.operation <= 0xFF:
        raise UsageError(f"unknown operation code {request.operation}")
    head = _REQUEST.pack(
        request.operation_id,
        request.operation,
        VERSION,
        len(key),
        ABSENT if value is None else len(value),
        ABSENT if expected is None else len(expected),
    )
    return b"".join((head, key, value or b"", expected or b""))


def peek_operation_id(payload: Buffer) -> int:
    """The operation id of a request or response that may be broken, UNKNOWN_OPERATION_ID when it is too short."""
    if len(payload) < _OPERATION_ID.size:
        return UNKNOWN_OPERATION_ID
    operation_id: int = _OPERATION_ID.unpack_from(payload)[0]
    return operation_id


def peek_operation(payload: Buffer) -> int:
    """The operation code of a request that may be broken, 0 when it is too short."""
    return payload[8] if len(payload) > 8 else 0


def decode_request(payload: Buffer) -> Request:
    """Decode a request. Raises `DecodeError` unless it has the exact form that `encode_request` gives."""
    if len(payload) < _REQUEST.size:
        raise DecodeError(f"request of {len(payload)} bytes is shorter than its header")
    operation_id, operation, version, key_length, value_length, expected_length = _REQUEST.unpack_from(payload)
    if version != VERSION:
        raise DecodeError(f"request encoding version {version}, this service reads {VERSION}")
    if key_length > MAX_KEY_LENGTH:
        raise DecodeError(f"key of {key_length} bytes, limit is {MAX_KEY_LENGTH}")
    if not ABSENT <= value_length <= MAX_VALUE_LENGTH or not ABSENT <= expected_length <= MAX_VALUE_LENGTH:
        raise DecodeError(f"value of {value_length} or {expected_length} bytes, limit is {MAX_VALUE_LENGTH}")
    value_start = _REQUEST.size + key_length
    expected_start = value_start + max(value_length, 0)
    end = expected_start + max(expected_length, 0)
    if end != len(payload):
        raise DecodeError(f"request of {len(payload)} bytes says that it has {end}")
    try:
        key = str(payload[_REQUEST.size : value_start], "utf-8") if key_length else ""
    except UnicodeDecodeError:
        raise DecodeError("key is not UTF-8 text") from None
    return Request(
        operation_id,
        operation,
        key,
        None if value_length < 0 else bytes(payload[value_start:expected_start]),
        None if expected_length < 0 else bytes(payload[expected_start:end]),
    )


def encode_response(response: Response) -> bytes:
    """Encode a response. Raises `UsageError` when it is longer than MAX_RESPONSE_LENGTH."""
    operation_id, operation, status, position, value, several, _error = response
    if value is not None and several is None and status != Status.ERROR and len(value) <= MAX_VALUE_LENGTH:
        # The most frequent answer, in one step.
        head = (operation_id, position, operation, status, VERSION, _SHAPE_VALUE, 1, len(value))
        return _RESPONSE_OF_ONE.pack(*head) + value
    shape, values = _response_values(response)
    parts = [_RESPONSE.pack(operation_id, position, operation, status, VERSION, shape, len(values))]
    for encoded_value in values:
        parts.append(_LENGTH.pack(len(encoded_value)))
        parts.append(encoded_value)
    encoded = b"".join(parts)
    if len(encoded) > MAX_RESPONSE_LENGTH:
        raise UsageError(f"response of {len(encoded)} bytes, limit is {MAX_RESPONSE_LENGTH}")
    return encoded


def echo_response(payload: memoryview, position: int) -> bytes | None:
    """The response to an ECHO that has a value and nothing else, in one step. None for any other request."""
    if len(payload) < _REQUEST.size:
        return None
    operation_id, operation, version, key_length, value_length, expected_length = _REQUEST.unpack_from(payload)
    has_form = operation == _ECHO and version == VERSION and key_length == 0 and expected_length == ABSENT
    if not has_form or value_length != len(payload) - _REQUEST.size or value_length > MAX_VALUE_LENGTH:
        return None
    head = _RESPONSE_OF_ONE.pack(operation_id, position, operation, _OK, VERSION, _SHAPE_VALUE, 1, value_length)
    return head + payload[_REQUEST.size :]


def _response_values(response: Response) -> tuple[int, tuple[bytes, ...]]:
    if response.status == Status.ERROR:
        return _SHAPE_VALUE, (response.error.encode(),)
    if response.values is not None:
        return _SHAPE_LIST, response.values
    if response.value is not None:
        return _SHAPE_VALUE, (response.value,)
    return _SHAPE_NOTHING, ()


def decode_response(payload: Buffer) -> Response:
    """Decode a response. Raises `DecodeError` unless it has the exact form that `encode_response` gives."""
    if len(payload) < _RESPONSE.size:
        raise DecodeError(f"response of {len(payload)} bytes is shorter than its header")
    operation_id, position, operation, status, version, shape, count = _RESPONSE.unpack_from(payload)
    if version != VERSION:
        raise DecodeError(f"response encoding version {version}, this client reads {VERSION}")
    values = _decode_values(payload, count)
    if status not in (Status.OK, Status.CAS_FAILED, Status.ERROR):
        raise DecodeError(f"response status {status} is unknown")
    if shape != _SHAPE_LIST and (shape, len(values)) not in ((_SHAPE_NOTHING, 0), (_SHAPE_VALUE, 1)):
        raise DecodeError(f"response of shape {shape} with {len(values)} values")
    if status == Status.ERROR:
        if shape != _SHAPE_VALUE:
            raise DecodeError("error response without a text")
        try:
            return Response(operation_id, operation, Status.ERROR, position, error=values[0].decode())
        except UnicodeDecodeError:
            raise DecodeError("error text is not UTF-8") from None
    return Response(
        operation_id,
        operation,
        Status(status),
        position,
        value=values[0] if shape == _SHAPE_VALUE else None,
        values=tuple(values) if shape == _SHAPE_LIST else None,
    )


def _decode_values(payload: Buffer, count: int) -> list[bytes]:
    values = []
    offset = _RESPONSE.size
    end = len(payload)
    for _ in range(count):
        if offset + _LENGTH.size > end:
            raise DecodeError("response ends inside a value")
        length = _LENGTH.unpack_from(payload, offset)[0]
        offset += _LENGTH.size
        if length > end - offset:
            raise DecodeError("response ends inside a value")
        values.append(bytes(payload[offset : offset + length]))
        offset += length
    if offset != end:
        raise DecodeError(f"{end - offset} bytes after the response")
    return values
