"""The sinks for the archive's responses and signals, which separate the serving of a request from its requester."""

from typing import NamedTuple, Protocol

from upheaval_node.archive.codes import ErrorCode
from upheaval_node.protocol.archive_messages import RecordingSignal


class ResponseSink(Protocol):
    """The session of one client. Its methods never fail: a session that has ended ignores its responses."""

    @property
    def control_session_id(self) -> int:
        """The id that the client's requests carry."""

    def send_ok(self, correlation_id: int, relevant_id: int = 0) -> None:
        """Send a ControlResponse OK with the answer."""

    def send_error(self, correlation_id: int, text: str, code: int = ErrorCode.GENERIC) -> None:
        """Send a ControlResponse ERROR; `code` is one of `ErrorCode`."""

    def send_signal(
        self, correlation_id: int, recording_id: int, subscription_id: int, position: int, signal: RecordingSignal
    ) -> None:
        """Send a RecordingSignalEvent; the recording or subscription id is -1 where none applies."""


class Requester(NamedTuple):
    """The requester, and the correlation id of its request for later signals and errors."""

    sink: ResponseSink
    correlation_id: int

    def ok(self, relevant_id: int = 0) -> None:
        """Report success; the relevant id is the answer."""
        self.sink.send_ok(self.correlation_id, relevant_id)

    def error(self, text: str, code: int = ErrorCode.GENERIC) -> None:
        """Report a failure, at once or later; `code` is one of `ErrorCode`."""
        self.sink.send_error(self.correlation_id, text, code)

    def signal(self, signal: RecordingSignal, recording_id: int, subscription_id: int, position: int) -> None:
        """Send a signal about the request's recording, with a position of that recording."""
        self.sink.send_signal(self.correlation_id, recording_id, subscription_id, position, signal)
