"""Error codes of the archive's control protocol, and the error that is answered with such a code."""

from enum import IntEnum

from upheaval_node.errors import NodeError


class ErrorCode(IntEnum):
    """The `relevant_id` of an ERROR response (Aeron archive: error codes)."""

    GENERIC = 0
    ACTIVE_LISTING = 1
    ACTIVE_RECORDING = 2
    ACTIVE_SUBSCRIPTION = 3
    UNKNOWN_SUBSCRIPTION = 4
    UNKNOWN_RECORDING = 5
    UNKNOWN_REPLAY = 6
    MAX_REPLAYS = 7
    MAX_RECORDINGS = 8
    INVALID_EXTENSION = 9
    AUTHENTICATION_REJECTED = 10
    STORAGE_SPACE = 11
    UNKNOWN_REPLICATION = 12
    UNAUTHORISED_ACTION = 13
    REPLICATION_CONNECTION_FAILURE = 14
    EMPTY_RECORDING = 15
    INVALID_POSITION = 16


class RequestError(NodeError):
    """A request that cannot be served. The requester gets `code` and the text."""

    def __init__(self, text: str, code: ErrorCode = ErrorCode.GENERIC) -> None:
        super().__init__(text)
        self.code = code


def unknown_recording(recording_id: int) -> RequestError:
    """The error for a recording that does not exist (UNKNOWN_RECORDING)."""
    return RequestError(f"unknown recording id: {recording_id}", ErrorCode.UNKNOWN_RECORDING)
