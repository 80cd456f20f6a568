"""The errors of the node: one root, and one branch for each party that can be at fault.

`PeerError` is about what another process sent or left on disk; `UsageError` is about how our own caller used us;
`StorageError` and `NetworkError` come from the machine. Nothing from the network may end a node: code that
decodes peer input turns every failure into a `PeerError`.
"""


class NodeError(Exception):
    """Root of every error that the node raises on purpose."""


class PeerError(NodeError):
    """Bytes or behaviour of another party that break the protocol."""


class DamageError(PeerError):
    """A file that no longer holds what was made durable in it. It does before `whole_end`; -1 if that is unknown."""

    def __init__(self, text: str, whole_end: int = -1) -> None:
        super().__init__(text)
        self.whole_end = whole_end


class DecodeError(PeerError):
    """Bytes that are no valid message, frame or file record."""


class UsageError(NodeError):
    """A call or a setting that makes no sense: fix the caller or the configuration."""


class StorageError(NodeError):
    """A file operation failed: no space, no permission, an I/O error."""


class NetworkError(NodeError):
    """An address cannot be bound or resolved."""


class TimeoutExpired(NodeError):
    """Something that was awaited did not happen within its time-out."""


class TerminationError(NodeError):
    """The component must end now. `expected` is true for an orderly end, false for a failure."""

    def __init__(self, text: str, *, expected: bool) -> None:
        super().__init__(text)
        self.expected = expected


class ContradictionError(TerminationError):
    """Parts of this member disagree on what they have read: a defect, which no fault explains."""

    def __init__(self, text: str) -> None:
        super().__init__(text, expected=False)
