"""A watch in a thread of its own, beside the test that makes the run grow, and what it says."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from upheaval_pipeline.watch import Watch, open_checkpoint
from upheaval_pipeline.watch_output import Status

from upheaval.checkers.verdict import Verdict
from upheaval.records import RunFolder
from upheaval.waits import wait_until

PATIENCE_S: Final = 300.0


@dataclass
class Said:
    """What a watch says. Implements `Output`."""

    findings: list[Mapping[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    last: Status | None = None
    verdict: Verdict | None = None

    def finding(self, finding: Mapping[str, Any]) -> None:
        self.findings.append(finding)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def status(self, status: Status) -> None:
        self.last = status

    def end(self, verdict: Verdict, followed: int, broken: Sequence[str]) -> None:
        self.verdict = verdict

    @property
    def broken(self) -> set[str]:
        return {str(finding["promise"]) for finding in self.findings}


class Watching:
    """The thread, and what was said so far."""

    def __init__(self, spark: Any, folder: Path, checkpoint: Path) -> None:
        self.said = Said()
        run = RunFolder(folder)
        progress = open_checkpoint(checkpoint, run.read_manifest().run_id)
        self._watch = Watch(run, checkpoint, progress, self.said)
        self._spark = spark
        self._is_over = threading.Event()
        self.failure: BaseException | None = None
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._watch.follow(self._spark, self._interrupted)
        except BaseException as failure:  # noqa: BLE001 - raised in the thread of the test
            self.failure = failure

    def _interrupted(self) -> None:
        if self._is_over.is_set():
            raise KeyboardInterrupt(2)

    def stop(self) -> None:
        """As Ctrl-C does."""
        self._is_over.set()
        self.thread.join(PATIENCE_S)
        assert not self.thread.is_alive()

    def until_followed(self, operations: int) -> None:
        """Wait until so many were, and nobody waits for its place in the log."""
        self._until(lambda: self._status.followed >= operations and not self._status.waiting, f"{operations} followed")

    def until_waiting(self, operations: int) -> None:
        """Wait until so many wait for their place in the log."""
        self._until(lambda: self._status.waiting >= operations, f"{operations} waiting")

    def until_read(self, member: int, position: int) -> None:
        self._until(lambda: self._status.read.get(member, 0) >= position, f"member {member} read up to {position}")

    def until_found(self, promise: str) -> None:
        self._until(lambda: promise in self.said.broken, f"{promise} found")

    def until_over(self) -> Verdict:
        """Wait until it ends by itself."""
        self._until(lambda: not self.thread.is_alive(), "the end")
        if self.failure is not None:
            raise self.failure
        assert self.said.verdict is not None
        return self.said.verdict

    @property
    def _status(self) -> Status:
        return self.said.last or Status(0, 0, 0, {}, {}, 0, -1, "")

    def _until(self, condition: Any, what: str) -> None:
        def holds() -> bool:
            if self.failure is not None:
                raise self.failure
            return bool(condition())

        wait_until(holds, timeout_s=PATIENCE_S, describe=lambda: f"expected {what}, got {self.said}")


@contextmanager
def watching(spark: Any, folder: Path, checkpoint: Path) -> Iterator[Watching]:
    """A watch of a run, which ends with the block."""
    watch = Watching(spark, folder, checkpoint)
    watch.thread.start()
    try:
        yield watch
    finally:
        watch.stop()


class Command:
    """`upheaval watch` as a process with a session and a temporary folder of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir()
        self.temporary = folder / "tmp"
        self.temporary.mkdir()
        self._output = folder / "output"
        settings = {
            "TMPDIR": str(self.temporary),
            "SPARK_SUBMIT_OPTS": f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={self.temporary}",
        }
        with self._output.open("wb") as output, (folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "upheaval.cli.main", "watch", "--json", *options],
                env={**os.environ, **settings},
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )

    def said(self, kind: str) -> list[dict[str, Any]]:
        """What it printed of a kind, by whole lines."""
        lines = self._output.read_text().splitlines(keepends=True)
        told = [json.loads(line) for line in lines if line.endswith("\n")]
        return [each for each in told if each["kind"] == kind]

    def until_said(self, kind: str) -> None:
        def holds() -> bool:
            assert self._process.poll() is None, self._output.read_text()
            return bool(self.said(kind))

        wait_until(holds, timeout_s=PATIENCE_S, describe=lambda: f"expected a {kind}: {self._output.read_text()}")

    def send(self, number: signal.Signals) -> None:
        """To it alone, or as a terminal does with Ctrl-C."""
        if number is signal.SIGINT:
            os.killpg(self._process.pid, number)
        else:
            self._process.send_signal(number)

    def status(self) -> int:
        """Wait for its end, and until nothing of its session is left."""
        status = self._process.wait(PATIENCE_S)
        wait_until(lambda: not self._left(), timeout_s=PATIENCE_S, describe=lambda: f"{self._left()} are left")
        return status

    def end(self) -> None:
        """Whatever is left of it."""
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait(PATIENCE_S)

    def _left(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                # It may end while we look.
                with contextlib.suppress(OSError):
                    state, _, _, session = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                    if int(session) == self._process.pid and state != "Z":
                        found.append(int(entry.name))
        return found


@contextmanager
def command(folder: Path, *options: str) -> Iterator[Command]:
    """Ended with the block."""
    started = Command(folder, *options)
    try:
        yield started
    finally:
        started.end()
