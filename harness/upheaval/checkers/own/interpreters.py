"""Interpreters that run the user's code. Each forks a child for every question, so that questions share nothing.

A judge must not run the code that it judges: that code may never end, exit the process, or change what others see. An
interpreter has loaded only the answering program, nothing of the user. It was started with its environment variables,
hash seed and locale. All other conditions are changed by the child itself, see `replay_conditions`.
"""

import json
import os
import select
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final

from upheaval.checkers.own import replay_conditions
from upheaval.checkers.own.causes import Cause
from upheaval.records import owned_folder
from upheaval_chaos.programs import printed

TIMEOUT_S: Final = 180.0
"""Seconds of wall time, which is longer than processor time if the machine is busy."""
_SHOWN: Final = 200
_CHUNK: Final = 1 << 16
_of_block: Final[ContextVar["Interpreters | None"]] = ContextVar("_of_block", default=None)


@contextmanager
def shared_interpreters() -> Iterator["Interpreters"]:
    """The interpreters of the enclosing block, or new ones that end with this block."""
    around = _of_block.get()
    if around is not None:
        yield around
        return
    with Interpreters() as interpreters:
        token = _of_block.set(interpreters)
        try:
            yield interpreters
        finally:
            _of_block.reset(token)


class Interpreters:
    """The interpreters of a judgement. Each starts at the first question for it; all end with the block."""

    def __init__(self) -> None:
        self._idle: defaultdict[tuple[str, ...], list[_Interpreter]] = defaultdict(list)
        self._lock = threading.Lock()
        self._ends = ExitStack()

    def __enter__(self) -> "Interpreters":
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    def ask(
        self,
        module: str,
        question: Mapping[str, Any],
        changed: Collection[Cause] = (Cause.HASH_SEED,),
        timeout_s: float | None = None,
        hash_seed: str = "",
    ) -> dict[str, Any] | str:
        """The JSON answer of the program `module`, or a text that says why there is none.

        `question` has the folder of the code as `source`. The time-out is `TIMEOUT_S` unless given. `hash_seed` takes
        the place of that of `changed`. Thread-safe.
        """
        variables = replay_conditions.environment(changed, hash_seed)
        key = (module, *map("=".join, variables.items()))
        with self._lock:
            interpreter = self._idle[key].pop() if self._idle[key] else None
        if interpreter is None:
            interpreter = _Interpreter(module, variables)
            with self._lock:
                self._ends.callback(interpreter.end)
        with _directory(changed) as directory:
            limit_s = TIMEOUT_S if timeout_s is None else timeout_s
            answer = interpreter.ask({**question, "directory": str(directory), "limit_s": limit_s}, limit_s)
        if isinstance(answer, str):
            interpreter.end()
        else:
            with self._lock:
                self._idle[key].append(interpreter)
        return answer


@contextmanager
def _directory(changed: Collection[Cause]) -> Iterator[Path]:
    """The working directory: the current one, or an empty temporary folder."""
    if Cause.DIRECTORY not in changed:
        yield Path.cwd()
        return
    with owned_folder("replay") as place:
        empty = place / "empty"
        empty.mkdir()
        yield empty


class _Interpreter:
    """A process that answers questions one after the other."""

    def __init__(self, module: str, variables: Mapping[str, str]) -> None:
        self._errors = TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._answers, answers = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*replay_conditions.LAUNCHER, module, str(answers)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env=variables,
                pass_fds=(answers,),
                start_new_session=True,
                bufsize=0,
            )
        finally:
            os.close(answers)

    def ask(self, question: Mapping[str, Any], limit_s: float) -> dict[str, Any] | str:
        """The answer, or why there is none. After a failure, no other question may follow."""
        deadline_s = time.monotonic() + limit_s
        errors_begin = os.fstat(self._errors.fileno()).st_size
        try:
            self._send(json.dumps(question).encode() + b"\n", deadline_s)
            content, _, status = self._receive(deadline_s).rstrip(b"\n").rpartition(b"\n")
            if status == b"0":
                answer = json.loads(content)
                return answer if isinstance(answer, dict) else f"its code cannot be run here: it printed {answer!r}"
        except TimeoutError:
            return f"its code did not end within {limit_s:g} s"
        except (OSError, ValueError):
            status = b""
        self._errors.seek(errors_begin)
        lines = printed(self._errors.read()).splitlines()
        return f"its code cannot be run here: {(lines or [f'status {status.decode()}'])[-1][:_SHOWN]}"

    def _send(self, line: bytes, deadline_s: float) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        left = memoryview(line)
        while left:
            _wait_for(pipe.fileno(), select.POLLOUT, deadline_s)
            left = left[os.write(pipe.fileno(), left) :]

    def _receive(self, deadline_s: float) -> bytes:
        """The answer and the exit status of its child, one line each; fewer lines if the process has ended."""
        content, lines = bytearray(), 0
        while lines < 2:
            _wait_for(self._answers, select.POLLIN, deadline_s)
            chunk = os.read(self._answers, _CHUNK)
            if not chunk:
                break
            lines += chunk.count(b"\n")
            content += chunk
        return bytes(content)

    def end(self) -> None:
        """Kill the process and all that it has started. Idempotent."""
        if self._errors.closed:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        os.close(self._answers)
        self._errors.close()


def _wait_for(descriptor: int, event: int, deadline_s: float) -> None:
    """Wait until the descriptor is ready. Raises `TimeoutError` at the deadline."""
    ready = select.poll()
    ready.register(descriptor, event)
    left_s = deadline_s - time.monotonic()
    if left_s <= 0 or not ready.poll(left_s * 1_000):
        raise TimeoutError
