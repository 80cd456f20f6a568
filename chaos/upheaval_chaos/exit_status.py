"""The exit statuses of the command line, all of them: errors, verdicts, help and documents take them from here."""

from enum import IntEnum
from typing import Final


class CommandStatus(IntEnum):
    """How a command ended. A number never changes its meaning."""

    VALID = 0
    BROKEN = 1
    REFUSED = 2
    UNKNOWN = 3
    DEFECT = 70
    """The number of `EX_SOFTWARE` in sysexits.h."""
    READER_GONE = 141
    """What a shell shows for a program that SIGPIPE ended."""


_MEANINGS: Final = {
    CommandStatus.VALID: "valid or done",
    CommandStatus.BROKEN: "a promise was broken",
    CommandStatus.REFUSED: "wrong usage or environment",
    CommandStatus.UNKNOWN: "unknown or timed out",
    CommandStatus.DEFECT: "a defect of upheaval: standard error has what to report",
    CommandStatus.READER_GONE: "the reader of the output went away before there was a verdict",
}
_OF_SIGNALS: Final = 128


def interrupted_status(signal_number: int) -> int:
    """The exit status of a command that a signal ended."""
    return _OF_SIGNALS + signal_number


def status_table() -> list[tuple[str, str]]:
    """Each status with its meaning, as help and documents show them."""
    rows = [(str(status.value), _MEANINGS[status]) for status in CommandStatus]
    return [*rows, (f"{_OF_SIGNALS} + N", "signal N ended it: 130 after Ctrl-C, 143 after SIGTERM")]
