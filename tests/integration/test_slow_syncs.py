"""A program whose syncs take longer, and what an observer sees of them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from upheaval.runtimes import slow_syncs
from upheaval.runtimes.sync_watch import SyncWatch
from upheaval.waits import wait_until
from upheaval_node.types import MS

LIMIT_S = 120.0
SLOW_MS = 300
WRITER = """
import os, sys
path = sys.argv[1]
with open(path + ".log", "wb", buffering=0) as log:
    for position in range(1, 1 << 30):
        log.write(b"x")
        os.fdatasync(log.fileno())
        with open(path + ".new", "w") as file:
            file.write(str(position))
        os.replace(path + ".new", path)
"""


def slowed(latencies: Path, *program: str) -> list[str]:
    return [sys.executable, "-I", "-S", slow_syncs.__file__, str(latencies), *program]


class Writer:
    """A program that syncs without a pause, and moves a position after each sync."""

    def __init__(self, folder: Path) -> None:
        self.latencies = folder / "latencies"
        self._position = folder / "position"
        self.set_latency(0)
        program = [sys.executable, "-c", WRITER, str(self._position)]
        self.process = subprocess.Popen(slowed(self.latencies, *program))

    def set_latency(self, milliseconds: int) -> None:
        self.latencies.write_text(str(milliseconds))

    def position(self) -> int:
        return int(self._position.read_text())

    def watch(self) -> SyncWatch:
        return SyncWatch(lambda: [self.process.pid], self.position)


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    made = Writer(tmp_path)
    wait_until(
        lambda: (tmp_path / "position").exists() or made.process.poll() is not None,
        timeout_s=LIMIT_S,
        describe=lambda: "the writer does not write",
    )
    yield made
    made.process.kill()
    made.process.wait()


def seen_bound(watch: SyncWatch) -> bool:
    watch.look()
    return any(took_ns < SLOW_MS * MS for _, took_ns in watch.times.bounded)


def test_a_slow_sync_is_seen_and_one_that_is_slow_no_more(writer: Writer) -> None:
    def is_fast() -> bool:
        return seen_bound(writer.watch())

    wait_until(is_fast, timeout_s=LIMIT_S, describe=lambda: "no sync was fast before")
    writer.set_latency(SLOW_MS)
    # The sync that the old latency was for is over after two moves.
    before = writer.position()
    wait_until(lambda: writer.position() > before + 1, timeout_s=LIMIT_S, describe=lambda: "no sync ends")
    watch = writer.watch()

    def is_slow() -> bool:
        watch.look()
        return any(took_ns >= SLOW_MS * MS * 3 // 4 for _, took_ns in watch.times.lasted)

    wait_until(is_slow, timeout_s=LIMIT_S, describe=lambda: f"no sync is slow: {watch.times}")
    assert not [took_ns for _, took_ns in watch.times.bounded if took_ns < SLOW_MS * MS]
    writer.set_latency(0)
    wait_until(is_fast, timeout_s=LIMIT_S, describe=lambda: "no sync is fast again")


def test_what_delays_them_ends_with_the_program(tmp_path: Path) -> None:
    latencies = tmp_path / "latencies"
    latencies.write_text("0")
    print_parent = "import os; os.fsync(os.open('.', os.O_RDONLY)); print(os.getpid())"
    done = subprocess.run(
        slowed(latencies, sys.executable, "-c", print_parent), capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.strip().isdecimal()
    wait_until(
        lambda: not _supervisors(latencies), timeout_s=LIMIT_S, describe=lambda: f"{_supervisors(latencies)} run"
    )


def _supervisors(latencies: Path) -> list[str]:
    return [path.parent.name for path in Path("/proc").glob("[0-9]*/cmdline") if str(latencies) in _text(path)]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def test_the_program_is_the_process_that_was_started(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import json, os; print(json.dumps([os.getpid(), os.environ['X']]))"]
    with subprocess.Popen(
        slowed(tmp_path / "none", *program), stdout=subprocess.PIPE, env={**os.environ, "X": "1"}
    ) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.read()) == [process.pid, "1"]
    assert process.returncode == 0
