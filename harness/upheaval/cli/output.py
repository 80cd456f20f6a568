"""Standard output and standard error as commands print to them: printing raises nothing that a command has to foresee.

Either may be closed, full, without a reader, or of an encoding that lacks a letter. What it does not take is left out,
and the command goes on to its verdict. `final_status` says what follows.
"""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TextIO, cast

from upheaval.cli.presentation import AS_USUAL, Presentation
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.programs import ERRORS

_STANDARD: Final = (0, 1, 2)


class OutputLost(BaseException):
    """Ends a command that does nothing but print, as soon as standard output takes no more."""


class Output:
    """A stream that takes everything; what the stream below did not take is lost, and `error` says why."""

    def __init__(self, stream: TextIO) -> None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=ERRORS)
        self.stream = stream
        self.error: OSError | None = None
        self.ends_command = False
        """Whether the first loss raises `OutputLost`."""
        self.presentation = AS_USUAL
        """How commands print to it."""

    def write(self, text: str) -> int:
        """Always the whole text."""
        self._attempt(lambda: self.stream.write(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Each of them."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """As far as it goes."""
        self._attempt(self.stream.flush)

    def close(self) -> None:
        """It stays open: it belongs to the process and not to who prints."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def _attempt(self, act: Callable[[], object]) -> None:
        if self.error is None:
            try:
                act()
            except OSError as error:
                self.error = error
                # What is left in the buffer must not fail again when the interpreter ends.
                with contextlib.suppress(OSError), open(os.devnull, "wb") as nothing:  # noqa: PTH123 - a device
                    os.dup2(nothing.fileno(), self.stream.fileno())
        if self.error is not None and self.ends_command:
            raise OutputLost


def presentation_of(stream: TextIO) -> Presentation:
    """How commands print to a stream."""
    return stream.presentation if isinstance(stream, Output) else AS_USUAL


def present(presentation: Presentation) -> None:
    """Have commands print so, to standard output and standard error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, Output):
            stream.presentation = presentation


def note(text: str) -> None:
    """Print on standard error what is no result: progress, and what is good to know. With `--quiet` nothing."""
    if not presentation_of(sys.stderr).is_quiet:
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def standard_streams() -> Iterator[Output]:
    """Put them in place; yields standard output."""
    _open_closed_descriptors()
    previous = sys.stdout, sys.stderr
    output, errors = (
        Output(os.fdopen(os.open(os.devnull, os.O_WRONLY), "w") if stream is None else stream) for stream in previous
    )
    sys.stdout, sys.stderr = cast(TextIO, output), cast(TextIO, errors)
    try:
        yield output
    finally:
        sys.stdout, sys.stderr = previous


def final_status(status: int, output: Output) -> int:
    """What a command ends with that came to `status`: never with success when its output is lost to a full disk.

    A reader that has gone changes nothing: the command ends with `status`.
    """
    output.ends_command = False
    output.flush()
    if output.error is None or has_no_reader(output):
        return status
    print(f"upheaval: standard output: {output.error.strerror or output.error}", file=sys.stderr)
    return status or CommandStatus.REFUSED


def lost_status(output: Output) -> CommandStatus:
    """The status of a command that `OutputLost` ended."""
    return CommandStatus.READER_GONE if has_no_reader(output) else CommandStatus.REFUSED


def has_no_reader(output: Output) -> bool:
    """Whether the other end of the pipe or of the connection is closed."""
    return isinstance(output.error, ConnectionError)


def _open_closed_descriptors() -> None:
    """Else the next file or socket would get the number, and with it what this program or another one prints."""
    for number in _STANDARD:
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free, which is this one.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
