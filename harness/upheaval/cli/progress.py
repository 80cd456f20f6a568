"""One line on standard error that shows how far something is, where standard error is a terminal."""

import shutil
import sys
import time
from typing import Final

from upheaval.cli.output import presentation_of
from upheaval.load.settings import Progress

BAR_LENGTH: Final = 24
CAMPAIGN_LINES_S: Final = 30.0
"""The time between two lines of a log that say how far a campaign is."""


class ProgressLine:
    """Draws over its own last line. A file or a pipe gets a separate line every `lines_every_s`, or nothing."""

    def __init__(self, lines_every_s: float | None = None) -> None:
        self._stream = sys.stderr
        self._is_quiet = presentation_of(self._stream).is_quiet
        self._is_shown = self._stream.isatty() and not self._is_quiet
        self._lines_every_s = lines_every_s
        self._last_s = time.monotonic()
        self._length = 0

    def show(self, text: str) -> None:
        """Replace the line, cut to the width of the terminal."""
        if self._is_shown:
            text = text[: shutil.get_terminal_size().columns - 1]
            print("\r" + text.ljust(self._length), end="", file=self._stream, flush=True)
            self._length = len(text)
        elif (
            not self._is_quiet
            and self._lines_every_s is not None
            and time.monotonic() - self._last_s >= self._lines_every_s
        ):
            self._last_s = time.monotonic()
            print(text, file=self._stream, flush=True)

    def clear(self) -> None:
        """Leave an empty line, on which the next text begins."""
        if self._length:
            print("\r" + " " * self._length + "\r", end="", file=self._stream, flush=True)
            self._length = 0

    def end(self) -> None:
        """What is printed next begins on a new line."""
        if self._length:
            print(file=self._stream, flush=True)
            self._length = 0


def bar(done: float) -> str:
    """How much of it is done, from 0 to 1."""
    return f"{'#' * round(done * BAR_LENGTH):.<{BAR_LENGTH}}"


def load_progress(progress: Progress) -> str:
    """A bar where it is known when the load will end."""
    counts = (
        f"{progress.users} users, {progress.requests - progress.failures} ok, {progress.failures} failed, "
        f"{progress.per_second:.0f} a second"
    )
    if progress.duration_s is None:
        return f"{progress.elapsed_s:.0f} s: {counts}"
    done = min(progress.elapsed_s / progress.duration_s, 1.0)
    return f"[{bar(done)}] {progress.elapsed_s:.0f} of {progress.duration_s:g} s: {counts}"
