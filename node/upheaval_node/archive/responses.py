"""Where answers and signals of the archive go: the seam between what serves a request and who asked for it."""

from typing import NamedTuple, Protocol

from upheaval_node.archive.codes import ErrorCode
from upheaval_node.protocol.archive_messages import RecordingSignal


class ResponseSink(Protocol):
    """The session of one client. Nothing here fails: a session that is gone swallows what it is given."""

    @property
    def control_session_id(self) -> int:
        """The id by which the client's requests name its session."""

    def send_ok(self, correlation_id: int, relevant_id: int = 0) -> None:
        """ControlResponse OK with what the request asked for."""

    def send_error(self, correlation_id: int, text: str, code: int = ErrorCode.GENERIC) -> None:
        """ControlResponse ERROR; `code` is one of `ErrorCode`."""

    def send_signal(
        self, correlation_id: int, recording_id: int, subscription_id: int, position: int, signal: RecordingSignal
    ) -> None:
        """A RecordingSignalEvent; -1 for a recording or subscription that it is not about."""


class Requester(NamedTuple):
    """Who asked, and under which correlation id later news of the request are sent."""

    sink: ResponseSink
    correlation_id: int

    def ok(self, relevant_id: int = 0) -> None:
        """The request was served; the relevant id is what it asked for."""
        self.sink.send_ok(self.correlation_id, relevant_id)

    def error(self, text: str, code: int = ErrorCode.GENERIC) -> None:
        """The request failed, at once or later; `code` is one of `ErrorCode`."""
        self.sink.send_error(self.correlation_id, text, code)

    def signal(self, signal: RecordingSignal, recording_id: int, subscription_id: int, position: int) -> None:
        """News of a recording that the request is about; positions are the recording's."""
        self.sink.send_signal(self.correlation_id, recording_id, subscription_id, position, signal)
