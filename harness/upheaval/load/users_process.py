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

# What ending may take beside the users' own time-outs.
END_MARGIN_S: Final = 15.0
_LOOK_S: Final = 1.0
"""Between two looks whether the end was asked for, while the users' process reports nothing."""

_Process = subprocess.Popen[str]
_Messages = queue.SimpleQueue[dict[str, Any] | None]


class Listener(Protocol):
    """Who wants to know how a load gets on."""

    def ready(self) -> None:
        """The users begin, or their page waits for its start button."""

    def progress(self, progress: Progress) -> None:
        """What was done since the start; called twice a second."""


class LoadHand:
    """Changes the rate of a load and ends it, by any thread, at any time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._input: IO[str] | None = None
        self._is_ended = False

    @property
    def is_ended(self) -> bool:
        """Whether the end was asked for."""
        return self._is_ended

    def end(self) -> None:
        """In good order: each user finishes its operation."""
        with self._lock:
            self._is_ended = True
            self._let_go()

    def set_rate(self, rate: float) -> None:
        """Operations a second of each user from now on; 0 for no limit. A load that has ended has none."""
        with self._lock, contextlib.suppress(BrokenPipeError):
            if self._input is not None:
                self._input.write(json.dumps({RATE: rate}) + "\n")
                self._input.flush()

    @contextlib.contextmanager
    def holding(self, stream: IO[str]) -> Iterator[None]:
        """Have the standard input of the users' process in the block, and close it afterwards."""
        with self._lock:
            self._input = stream
            if self._is_ended:
                self._let_go()
        try:
            yield
        finally:
            with self._lock:
                self._let_go()

    def _let_go(self) -> None:
        """Of a process that is gone, closing tries in vain to write what it did not read."""
        if self._input is not None:
            with contextlib.suppress(BrokenPipeError):
                self._input.close()
            self._input = None


def run_users(settings: LoadSettings, log: Path, listener: Listener, hand: LoadHand | None = None) -> Statistics:
    """Run the users to the end of their load, or until `hand` ends it; what they print goes to `log`.

    With a page, Ctrl-C is the end that was wanted: the load is finished in good order. Without one it ends the users
    at once. Raises `EnvironmentFault` with the last line that they printed when they fail.
    """
    hand = hand or LoadHand()
    with _process(settings, log) as process, hand.holding(_input_of(process)):
        messages = _listen(process)
        try:
            statistics = _follow(messages, listener, hand, _end_timeout_s(settings))
        except KeyboardInterrupt:
            if settings.page is None:
                raise
            hand.end()
            statistics = _follow(messages, listener, hand, _end_timeout_s(settings))
        status = process.wait()
    if statistics is None or status != 0:
        raise EnvironmentFault(f"the users ended with status {status}: {_last_line(log)}")
    return statistics


@contextlib.contextmanager
def _process(settings: LoadSettings, log: Path) -> Iterator[_Process]:
    """The process; whatever happens, it is gone afterwards."""
    command = [sys.executable, "-P", "-m", "upheaval.load.runner", settings.to_json()]
    inherited = () if settings.page is None else (settings.page,)
    with log.open("wb") as stream:
        # A session of its own: a Ctrl-C at the terminal is for us, who then tell the users.
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
    """Messages, then None. Read by a thread, so that a signal never cuts one."""
    messages: _Messages = queue.SimpleQueue()
    assert process.stdout is not None
    threading.Thread(target=_read, args=(process.stdout, messages), daemon=True).start()
    return messages


def _read(stream: IO[str], messages: _Messages) -> None:
    # The last line of a process that was killed is cut.
    with contextlib.suppress(ValueError):
        for line in stream:
            messages.put(json.loads(line))
    messages.put(None)


def _end_timeout_s(settings: LoadSettings) -> float:
    """What ending in good order may take: users end their operation, then locust ends the users."""
    return 2 * (2 * settings.timeout_s + END_MARGIN_S)


def _follow(messages: _Messages, listener: Listener, hand: LoadHand, end_timeout_s: float) -> Statistics | None:
    """The statistics, None when the process ended without them.

    Raises `EnvironmentFault` when it does not end in so many seconds after it was asked to.
    """
    deadline = math.inf
    while True:
        if hand.is_ended:
            deadline = min(deadline, time.monotonic() + end_timeout_s)
        try:
            message = messages.get(timeout=_LOOK_S)
        except queue.Empty:
            if time.monotonic() < deadline:
                continue
            raise EnvironmentFault("the users do not end: one of them does not give up the processor") from None
        if message is None:
            return None
        if STATISTICS in message:
            return Statistics.from_fields(message[STATISTICS])
        if PROGRESS in message:
            listener.progress(Progress(**message[PROGRESS]))
        if READY in message:
            listener.ready()


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding=ENCODING, errors=ERRORS).splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "they said nothing")
