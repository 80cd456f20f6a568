"""Encodes operations of a history as requests to the shipped services, and decodes them.

Values travel as JSON text, so that integers, strings and null survive the way through the log. A request to any other
service is known by the digest of its payload. This module knows the encoding of the services, and nothing of sessions
or logs.
"""

import hashlib
import json
import struct
from dataclasses import dataclass
from typing import Final

from upheaval.errors import UsageError
from upheaval.records.history import Function
from upheaval.records.jsonfields import Json, parse
from upheaval_node.errors import DecodeError, UsageError as NodeUsageError
from upheaval_node.ports import Buffer
from upheaval_node.service.services import encoding
from upheaval_node.service.services.encoding import Request, Response, Status
from upheaval_node.service.services.timers import FIRED

_LONG: Final = struct.Struct("<q")
_PRIVATE: Final = 0x10F000
"""Added to a byte that is not UTF-8, this gives a character that files may contain, unlike a lone surrogate."""
_AS_BYTES: Final = {_PRIVATE + byte: 0xDC00 + byte for byte in range(0x80, 0x100)}
# If an answer contains such a character itself, its bytes are written the same way.
_AS_CHARACTERS: Final = {surrogate: chr(private) for private, surrogate in _AS_BYTES.items()} | {
    private: "".join(chr(_PRIVATE + byte) for byte in chr(private).encode()) for private in _AS_BYTES
}
_READS: Final = (Function.READ, Function.LIST, Function.BALANCES, Function.FIRED)
_CONDITIONAL: Final = (
    encoding.Operation.COMPARE_AND_SET,
    encoding.Operation.TRANSFER,
    encoding.Operation.CANCEL_TIMER,
)

_CODES = {
    Function.READ: encoding.Operation.READ,
    Function.WRITE: encoding.Operation.WRITE,
    Function.CAS: encoding.Operation.COMPARE_AND_SET,
    Function.APPEND: encoding.Operation.APPEND,
    Function.LIST: encoding.Operation.READ_LIST,
    Function.ECHO: encoding.Operation.ECHO,
    Function.TRANSFER: encoding.Operation.TRANSFER,
    Function.BALANCES: encoding.Operation.BALANCES,
    Function.SCHEDULE: encoding.Operation.SCHEDULE_TIMER,
    Function.CANCEL: encoding.Operation.CANCEL_TIMER,
    Function.FIRED: encoding.Operation.READ_TIMERS,
}
_FUNCTIONS = {int(code): function for function, code in _CODES.items()}
_CAS: Final = int(encoding.Operation.COMPARE_AND_SET)
_TRANSFER: Final = int(encoding.Operation.TRANSFER)
_SPECIAL: Final = frozenset((_CAS, _TRANSFER, *(int(_CODES[f]) for f in (Function.SCHEDULE, Function.CANCEL))))
"""Codes of operations whose value is not JSON text alone."""


def encode_operation(operation_id: int, function: Function, key: str, value: Json) -> bytes:
    """The payload that requests an operation. Raises `UsageError` when key or value are too long."""
    expected, new = None, None
    if function is Function.CAS:
        assert isinstance(value, list)
        expected, new = None if value[0] is None else _encoded(value[0]), _encoded(value[1])
    elif function is Function.TRANSFER:
        assert isinstance(value, list)
        expected, new = str(value[0]).encode(), _long(value[1])
    elif function in (Function.SCHEDULE, Function.CANCEL):
        new = _long(value)
    elif function not in _READS:
        new = _encoded(value)
    try:
        return encoding.encode_request(Request(operation_id, _CODES[function], key, new, expected))
    except NodeUsageError as error:
        raise UsageError(str(error)) from error


def decode_operation(payload: Buffer) -> tuple[int, Function, str, Json]:
    """Operation id, function, key and value of a recorded request. Raises `DecodeError`."""
    number, operation, key, value, expected = encoding.decode_request(payload)
    function = _FUNCTIONS.get(operation)
    if function is None:
        raise DecodeError(f"operation {operation} is unknown")
    if operation not in _SPECIAL:
        return number, function, key, _decoded(value)
    if operation == _CAS:
        return number, function, key, [_decoded(expected), _decoded(value)]
    if operation == _TRANSFER:
        return number, function, key, [(expected or b"").decode("utf-8", "replace"), _number(value)]
    return number, function, key, _number(value)


@dataclass(frozen=True, slots=True)
class Credit:
    """A message from the ledger to itself: the second step of a transfer."""

    transfer_id: int
    account: str
    amount: int


def decode_credit(payload: Buffer) -> Credit | None:
    """The credit in a message of a service; None for any other message."""
    try:
        request = encoding.decode_request(payload)
    except DecodeError:
        return None
    if request.operation != encoding.Operation.CREDIT:
        return None
    amount = _number(request.value)
    return Credit(request.operation_id, request.key, amount if isinstance(amount, int) else 0)


def call_payload(payload: Buffer) -> bytes:
    """A copy of a request. Raises `TypeError` for text, and for a number, of which `bytes` would make zeros."""
    try:
        return bytes(memoryview(payload))
    except TypeError:
        what = f"a payload is bytes or an SBE message, got {type(payload).__name__}"
        raise TypeError(f"{what}: encode it, as in text.encode()") from None


def call_digest(payload: Buffer) -> str:
    """The digest by which the history and the log identify a request to a user's service."""
    return hashlib.sha256(payload).hexdigest()


def answer_text(answer: Buffer) -> str:
    """The answer to a call as written in the history: UTF-8, with other bytes as private characters.

    `answer_bytes` is the inverse.
    """
    return bytes(answer).decode("utf-8", "surrogateescape").translate(_AS_CHARACTERS)


def answer_bytes(text: str) -> bytes:
    """The bytes of an answer that the history has as text; the inverse of `answer_text`."""
    return text.translate(_AS_BYTES).encode("utf-8", "surrogateescape")


def decode_result(payload: Buffer) -> tuple[int, int, Json, str]:
    """Operation id, log position, result and error text ("" for none) of a response. Raises `DecodeError`."""
    response = encoding.decode_response(payload)
    return response.operation_id, response.position, _result(response), response.error


def _result(response: Response) -> Json:
    if response.operation in _CONDITIONAL:
        return response.status is Status.OK
    if response.operation == encoding.Operation.SCHEDULE_TIMER:
        return _number(response.value)
    if response.values is not None and response.operation == encoding.Operation.BALANCES:
        return [
            [value[_LONG.size :].decode("utf-8", "replace"), _number(value[: _LONG.size])] for value in response.values
        ]
    if response.values is not None and response.operation == encoding.Operation.READ_TIMERS:
        return [list(FIRED.unpack(value)) if len(value) == FIRED.size else None for value in response.values]
    if response.values is not None:
        return [_decoded(value) for value in response.values]
    return _decoded(response.value)


def _long(value: Json) -> bytes:
    assert isinstance(value, int)
    return _LONG.pack(value)


def _number(value: bytes | None) -> Json:
    if value is None or len(value) != _LONG.size:
        return None
    number: int = _LONG.unpack(value)[0]
    return number


def _encoded(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _decoded(value: bytes | None) -> Json:
    if value is None:
        return None
    try:
        return parse(value.decode())
    except (ValueError, RecursionError):
        # Written by a foreign client: this form of the bytes differs from every JSON value of ours.
        return {"bytes": value.hex()}
