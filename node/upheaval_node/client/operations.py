"""Requests and responses of the shipped services, from the client's side.

Encodes and decodes bytes; the caller sends them.
"""

from upheaval_node.ports import Buffer
from upheaval_node.service.services.encoding import (
    Operation,
    Request,
    Response,
    Status,
    decode_response,
    encode_request,
    peek_operation_id,
)

__all__ = [
    "Operation",
    "Request",
    "Response",
    "Status",
    "append_request",
    "compare_and_set_request",
    "decode_response",
    "echo_request",
    "encode_request",
    "is_response_to",
    "peek_operation_id",
    "read_list_request",
    "read_request",
    "write_request",
]


def echo_request(operation_id: int, value: bytes) -> bytes:
    """A request that returns `value`."""
    return encode_request(Request(operation_id, Operation.ECHO, value=value))


def read_request(operation_id: int, key: str) -> bytes:
    """A request that reads a register. An absent key has no value."""
    return encode_request(Request(operation_id, Operation.READ, key))


def write_request(operation_id: int, key: str, value: bytes) -> bytes:
    """A request that sets a register."""
    return encode_request(Request(operation_id, Operation.WRITE, key, value))


def compare_and_set_request(operation_id: int, key: str, expected: bytes | None, value: bytes) -> bytes:
    """A request that writes `value` if the register holds `expected`. None expects the key to be absent."""
    return encode_request(Request(operation_id, Operation.COMPARE_AND_SET, key, value, expected))


def append_request(operation_id: int, key: str, value: bytes) -> bytes:
    """A request that adds `value` to the end of a list."""
    return encode_request(Request(operation_id, Operation.APPEND, key, value))


def read_list_request(operation_id: int, key: str) -> bytes:
    """A request that reads a whole list. An absent key is an empty list."""
    return encode_request(Request(operation_id, Operation.READ_LIST, key))


def is_response_to(operation_id: int, payload: Buffer) -> bool:
    """Whether `payload` answers this operation and not an earlier, abandoned one."""
    return peek_operation_id(payload) == operation_id
