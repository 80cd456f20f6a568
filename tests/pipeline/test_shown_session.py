"""At a terminal a line shows how far Spark's stages are, and leaves nothing."""

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from upheaval.waits import wait_until
from upheaval_pipeline.shown_session import StageLine, stages_shown

TIMEOUT_S = 300


class Terminal(io.StringIO):
    """Text that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_tasks_that_are_done_are_counted_while_a_job_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    terminal, path = Terminal(), tmp_path / "there"

    def ends(number: int) -> int:
        """The first task ends at once, the other one when the file is there."""
        if number:
            wait_until(path.exists, timeout_s=TIMEOUT_S, describe=lambda: f"{path} is not there")
        return number

    monkeypatch.setattr(sys, "stderr", terminal)
    line = StageLine()
    with stages_shown(spark, line), ThreadPoolExecutor(1) as threads:
        job = threads.submit(spark.sparkContext.parallelize(range(2), 2).map(ends).collect)
        try:
            wait_until(lambda: ", 1 of 2 tasks" in terminal.getvalue(), timeout_s=TIMEOUT_S, describe=terminal.getvalue)
        finally:
            path.touch()
        assert job.result() == [0, 1]
        line.say("done")
    assert "Spark: stage " in terminal.getvalue()
    assert "\rupheaval: done\n" in terminal.getvalue()
    assert terminal.getvalue()[-1] in "\r\n"


def test_a_file_gets_no_line(monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with stages_shown(spark, StageLine()):
        assert spark.sparkContext.parallelize(range(2), 2).count() == 2
    assert file.getvalue() == ""
