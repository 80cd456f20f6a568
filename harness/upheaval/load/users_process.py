"""Runs the process of the locust users and listens to it. Knows no locust and no cluster."""

import contextlib
import json
import math
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, Protocol

from upheaval.errors import EnvironmentFault
from upheaval.load.settings import PROGRESS, RATE, READY, STATISTICS, LoadSettings, Progress, Statistics
from upheaval_chaos.programs import ENCODING, ERRORS, environment

# How long the end may take besides the users' own time-outs, in seconds.
END_MARGIN_S: Final = 15.0
_LOOK_S: Final = 1.0
"""How often to check whether the end was requested while the users' process reports nothing, in seconds."""

_Process = subprocess.Popen[str]
_Messages = queue.SimpleQueue[dict[str, Any] | None]


class Listener(Protocol):
    """Receives the progress of a load."""

    def ready(self) -> None:
        """The users begin, or the page waits for its start button."""

    def progress(self, progress: Progress) -> None:
        """The progress since the start; called twice a second."""


class LoadHand:
    """Changes the rate of a load and ends it, from any thread, at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._input: IO[str] | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the end was requested."""
        return self._is_ended

    def end(self) -> None:
        """End the load gracefully: each user finishes its operation."""
        with self._lock:
            self._is_ended = True
            self._close_input()

    def set_rate(self, rate: float) -> None:
        """Set the operations per second of each user, 0 for no limit. Does nothing after the load has ended."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            if self._input is not None:
                self._input.write(json.dumps({RATE: rate}) + "\n")
                self._input.flush()

    @contextlib.contextmanager
    def holding(self, stream: IO[str]) -> Iterator[None]:
        """Use the standard input of the users' process in the block; close it at the end, or when `end` is called."""
        with self._lock:
            self._input = stream
            if self._is_ended:
                self._close_input()
        try:
            yield
        finally:
            with self._lock:
                self._close_input()

    def _close_input(self) -> None:
        """Close the stream. Closing flushes it, which fails if the process has ended."""
        if self._input is not None:
            with contextlib.suppress(BrokenPipeError):
                self._input.close()
            self._input = None


def run_users(settings: LoadSettings, log: Path, listener: Listener, hand: LoadHand | None = None) -> Statistics:
    """Run the users to the end of their load, or until `hand` ends it. Their output goes to `log`.

    With a page, Ctrl-C is the usual end: the load finishes gracefully. Without one it ends the users at once. Raises
    `EnvironmentFault` with the last line of their output if they fail.
    """
    hand = hand or LoadHand()
    with _process(settings, log) as process, hand.holding(_input_of(process)):
        messages = _listen(process)
        try:
            statistics = _follow(messages, listener, hand, settings)
        except KeyboardInterrupt:
            if settings.page is None:
                raise
            hand.end()
            statistics = _follow(messages, listener, hand, settings)
        try:
            status = process.wait(_end_timeout_s(settings))
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(
                "the users have ended, but a thread of theirs still runs: make it a daemon"
            ) from None
    if statistics is None or status != 0:
        raise EnvironmentFault(f"the users ended with status {status}: {_last_line(log)}")
    return statistics


@contextlib.contextmanager
def _process(settings: LoadSettings, log: Path) -> Iterator[_Process]:
    """Run the process for the block; it is gone afterwards in any case."""
    command = [sys.executable, "-P", "-m", "upheaval.load.runner", settings.to_json()]
    inherited = () if settings.page is None else (settings.page,)
    with log.open("wb") as stream:
        # In its own session, so that Ctrl-C at the terminal reaches only us; we then end the users.
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stream,
            encoding=ENCODING,
            errors=ERRORS,
            env=environment(),
            pass_fds=inherited,
            start_new_session=True,
        )
    try:
        with process:
            try:
                yield process
            except BaseException:
                process.kill()
                raise
    finally:
        process.kill()


def _input_of(process: _Process) -> IO[str]:
    assert process.stdin is not None
    return process.stdin


def _listen(process: _Process) -> _Messages:
    """The messages, then None. A thread reads them, so that a signal never interrupts a message."""
    messages: _Messages = queue.SimpleQueue()
    assert process.stdout is not None
    threading.Thread(target=_read, args=(process.stdout, messages), daemon=True).start()
    return messages


def _read(stream: IO[str], messages: _Messages) -> None:
    # A killed process may leave an incomplete last line.
    with contextlib.suppress(ValueError):
        for line in stream:
            messages.put(json.loads(line))
    messages.put(None)


def _end_timeout_s(settings: LoadSettings) -> float:
    """How long a graceful end may take: users end their operation, then locust ends the users."""
    return 2 * (2 * settings.timeout_s + END_MARGIN_S)


def _follow(messages: _Messages, listener: Listener, hand: LoadHand, settings: LoadSettings) -> Statistics | None:
    """Report progress until the statistics arrive, and return them; None if the process ended without them.

    Raises `EnvironmentFault` if the process is not done long after its end was requested, or its time was over.
    """
    deadline = math.inf
    while True:
        if hand.is_ended:
            deadline = min(deadline, time.monotonic() + _end_timeout_s(settings))
        try:
            message = messages.get(timeout=_LOOK_S)
        except queue.Empty:
            if time.monotonic() < deadline:
                continue
            raise EnvironmentFault("the users do not end: one of them never yields the processor") from None
        if message is None:
            return None
        if STATISTICS in message:
            return Statistics.from_fields(message[STATISTICS])
        if PROGRESS in message:
            listener.progress(Progress(**message[PROGRESS]))
        if READY in message:
            if settings.page is None and settings.duration_s is not None:
                deadline = min(deadline, time.monotonic() + settings.duration_s + _end_timeout_s(settings))
            listener.ready()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding=ENCODING, errors=ERRORS).splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "they printed nothing")
