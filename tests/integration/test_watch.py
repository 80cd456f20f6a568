"""`upheaval watch` beside a live cluster: it follows a scenario to its end, and ends by a signal."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.built_runs import good_run
from support.growing_runs import GrowingRun, answers
from support.valid import require_valid_end
from upheaval.checkers.judge import verify_run
from upheaval.records import RunFolder
from upheaval.waits import wait_until


@contextmanager
def command(*words: str) -> "Iterator[subprocess.Popen[str]]":
    arguments = [sys.executable, "-m", "upheaval.cli.main", *words]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_cluster_whose_leader_is_killed_under_load_is_followed_to_its_end(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with command("run", "leader-killed", "--runtime", "process", "--dir", str(run.path)) as scenario:
        wait_until(run.history_file.exists, timeout_s=240, describe=lambda: "there is no load")
        with command("watch", "--dir", str(run.path), "--json") as watch:
            out, errors = watch.communicate(timeout=300)
        scenario.communicate(timeout=240)
        require_valid_end(scenario.returncode, run.path)
        assert (watch.returncode, errors) == (scenario.returncode, ""), out
    objects = [json.loads(line) for line in out.splitlines()]
    assert [each for each in objects if each["kind"] == "finding"] == []
    assert [each["text"].partition(" member")[0] for each in objects if each["kind"] == "fault"] == ["kill", "kill"]
    assert (objects[-1]["verdict"], objects[-1]["followed"]) == (verify_run(run.path).verdict.text, answers(run))


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    good_run(200).write(tmp_path / "finished")
    growing = GrowingRun(tmp_path / "finished", tmp_path / "run")
    growing.put(0.5)
    with command("watch", "--dir", str(growing.run.path)) as watch:
        assert watch.stdout is not None
        assert "judged while the run goes on" in watch.stdout.readline()
        watch.send_signal(signal.SIGINT)
        _, errors = watch.communicate(timeout=240)
        assert watch.returncode == 128 + signal.SIGINT
        assert "Traceback" not in errors
