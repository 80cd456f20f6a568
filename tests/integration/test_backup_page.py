"""Every command of docs/backup.md, run as it is written there; tests/docker has those for containers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.page_commands import blocks_of, run_block
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.runtimes.process import ProcessCluster
from upheaval.system.process_table import processes_of

pytestmark = pytest.mark.heavy

PAGE = "backup.md"


def test_every_block_of_the_page_is_run_by_a_test() -> None:
    assert {block.info for block in blocks_of(PAGE)} == {"sh", "sh docker", "python", "text"}


def test_the_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    try:
        told = "\n".join(run_block(PAGE, block, tmp_path) for block in blocks_of(PAGE) if block.info == "sh")
        clusters = [ProcessCluster.open(tmp_path / name) for name in ("shop", "restored")]
        assert [found for cluster in clusters for found in processes_of(cluster.config.run_id)] == []
    finally:
        for path in tmp_path.glob("*/cluster.json"):
            ProcessCluster.open(path.parent).down()
    lines = told.splitlines()
    status = json.loads("\n".join(lines[lines.index("{") : lines.index("}") + 1]))
    assert (status["state"], status["alive"]) == ("BACKING_UP", True)
    assert lines.count("6") == 1, told
    assert any(line.startswith("verdict: valid, ") for line in lines)
    for name in ("shop", "restored", "a-scenario"):
        assert verify_run(tmp_path / name).finding(Promise.BACKED_UP).verdict is Verdict.VALID


def test_the_test_of_the_page_passes_more_than_once(tmp_path: Path) -> None:
    (block,) = [block for block in blocks_of(PAGE) if block.info == "python"]
    (tmp_path / "test_page.py").write_text(block.text + "\n")
    options = ("-p", "no:cacheprovider", "--basetemp", str(tmp_path / "made"), "--seeds", "1..2")
    command = [sys.executable, "-m", "pytest", "-q", *options, "test_page.py"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    restored = {folder.resolve() for folder in (tmp_path / "made").glob("*/new")}
    assert len(restored) == 2
    for run in restored:
        assert verify_run(run).finding(Promise.BACKED_UP).verdict is Verdict.VALID
