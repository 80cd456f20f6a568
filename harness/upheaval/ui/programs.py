"""Commands that a page runs in separate processes, as if they had been typed. They end with the server."""

import subprocess
import sys
import threading
from collections.abc import Sequence

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval_chaos.programs import ENCODING, ERRORS, environment


class Programs:
    """Those of one server. Methods may be called by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._is_over = False

    @property
    def count(self) -> int:
        """How many run now."""
        return len(self._running)

    def run(self, arguments: Sequence[str], *, limit_s: float) -> "subprocess.CompletedProcess[str]":
        """`upheaval` with these arguments, to its end.

        Raises `UnknownOutcome` when it takes longer than the limit, `EnvironmentFault` when the server ends before.
        """
        command = [sys.executable, "-m", "upheaval.cli.main", *arguments]
        with self._started(command) as process:
            try:
                output, errors = process.communicate(timeout=limit_s)
            except subprocess.TimeoutExpired as error:
                raise UnknownOutcome(f"upheaval {arguments[0]} runs for longer than {limit_s:g} s") from error
            finally:
                process.kill()
                with self._lock:
                    self._running.discard(process)
        if self._is_over:
            raise EnvironmentFault(f"upheaval {arguments[0]} was ended with the server")
        return subprocess.CompletedProcess(command, process.returncode, output, errors)

    def end(self) -> None:
        """End what runs; nothing starts any more."""
        with self._lock:
            self._is_over = True
            for process in self._running:
                process.kill()

    def _started(self, command: Sequence[str]) -> "subprocess.Popen[str]":
        with self._lock:
            if self._is_over:
                raise EnvironmentFault("the server is ending: it starts nothing more")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding=ENCODING,
                errors=ERRORS,
                env=environment(),
            )
            self._running.add(process)
            return process
