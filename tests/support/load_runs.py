"""`upheaval load` as a program, and what must be true of everything that it printed."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from support.valid import require_valid_end
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.runtimes.cluster_file import has_cluster
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.process import ProcessCluster
from upheaval.system.process_table import processes_of
from upheaval.waits import wait_until
from upheaval_chaos.exit_status import CommandStatus

Command = subprocess.Popen[str]
TIMEOUT_S: Final = 240.0


class LoadCommands:
    """The commands that a test has started on one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[Command] = []

    def start(self, *options: str) -> Command:
        """With `--json`, from the folder beside the run."""
        place = "--dir" if has_cluster(self.folder) else "--new-dir"
        command = [sys.executable, "-m", "upheaval.cli.main", "load", "--json", place, str(self.folder), *options]
        environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=self.folder.parent,
        )
        self._started.append(process)
        return process

    def run(self, *options: str, status: int = 0) -> dict[str, Any]:
        return finish(self.start(*options), status)

    def wait_until_loaded(self, process: Command) -> None:
        """Until operations are in the history."""
        history = self.folder / "history.jsonl"

        def is_loaded() -> bool:
            assert process.poll() is None, process.communicate()
            return history.exists() and history.stat().st_size > 0

        wait_until(is_loaded, timeout_s=TIMEOUT_S, describe=lambda: "there is no load")

    def users(self) -> list[int]:
        """The processes of locust users on this folder."""
        wanted = (b"upheaval.load.runner", str(self.folder).encode())
        return [pid for pid, command in _commands() if all(text in command for text in wanted)]

    def end(self) -> None:
        for process in self._started:
            with process:
                process.kill()


def _commands() -> Iterator[tuple[int, bytes]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            # It may end while we look.
            with contextlib.suppress(OSError):
                yield int(entry.name), (entry / "cmdline").read_bytes()


def kill_the_leader(cluster: AnyCluster) -> None:
    """And bring it back when there is another one."""
    leader = cluster.wait_until_leader(TIMEOUT_S)
    cluster.member(leader).kill()
    cluster.wait_until_leader(TIMEOUT_S, other_than=leader)
    cluster.member(leader).start()


def finish(process: Command, status: int) -> dict[str, Any]:
    """What the command printed at its end. With status 0 the run is valid as `require_valid_end` takes it."""
    output, errors = process.communicate(timeout=TIMEOUT_S)
    may_be_starved = status == CommandStatus.VALID and process.returncode == CommandStatus.UNKNOWN
    assert may_be_starved or process.returncode == status, (output, errors)
    result: dict[str, Any] = json.loads(output)
    if status == CommandStatus.VALID:
        require_valid_end(process.returncode, Path(result["run"]), (output, errors))
        assert Verdict.named(result["verdict"]).exit_status == process.returncode
    return result


def require_agreement(result: dict[str, Any], *, earlier: int = 0) -> int:
    """Locust, the history and the log tell the same numbers; returns how many succeeded.

    `earlier` operations of the same run succeeded in earlier loads.
    """
    rows, total, history = result["statistics"]["rows"], result["statistics"]["total"], result["history"]
    assert total["successes"] == total["requests"] - total["failures"] == history["ok"]
    assert total["failures"] == history["fail"] + history["unknown"]
    assert sum(row["requests"] for row in rows) == total["requests"]
    found = next(finding for finding in result["promises"] if finding["promise"] == Promise.ACKNOWLEDGED_NOT_LOST)
    succeeded: int = history["ok"]
    assert succeeded == 0 or found["detail"].startswith(f"{earlier + succeeded} acknowledged "), found
    return succeeded


def names(result: dict[str, Any]) -> set[str]:
    """Of the operations in locust's statistics."""
    return {row["name"] for row in result["statistics"]["rows"]}


def running(folder: Path) -> int:
    """How many processes the cluster in a folder has."""
    return len(processes_of(ProcessCluster.open(folder).config.run_id))
