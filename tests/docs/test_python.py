"""Python on the pages runs: tests on the simulated runtime, clients against a cluster of processes, all else as it is.

Blocks marked `aeron`, `docker` and `locust` need more than Python: the suites of these names run them.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.pages import ROOT, PageBlock, page_blocks
from upheaval import Cluster
from upheaval.cli.main import main
from upheaval.runtimes.process import ProcessCluster

ELSEWHERE: Final = frozenset({"aeron", "docker", "locust", "file"})
CLUSTERS: Final = frozenset({"cluster", "tls"})
TIMEOUT_S: Final = 300.0
OWN_TEST: Final = "docs/backup.md"
"""Run by `tests/integration/test_backup_page.py`, which looks at what it left."""
HERE: Final = [b for b in page_blocks("python") if b.page != OWN_TEST and not ELSEWHERE & b.marks.keys()]
TESTS: Final = [block for block in HERE if "\ndef test_" in "\n" + block.block.text]
PROGRAMS: Final = [block for block in HERE if block not in TESTS and not CLUSTERS & block.marks.keys()]
PROJECTS: Final = sorted({block.marks.get("project", "") for block in TESTS})


def project_in(folder: Path, name: str) -> Path:
    """A copy of the example of that name, or an empty folder."""
    if name:
        return shutil.copytree(ROOT / "examples" / name, folder / name)
    folder.mkdir(exist_ok=True)
    return folder


def run_python(folder: Path, *arguments: str) -> None:
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_pages_have_blocks_of_each_kind() -> None:
    assert PROJECTS
    assert PROGRAMS
    assert {name for block in HERE for name in block.marks} == {*CLUSTERS, "project"}


@pytest.mark.parametrize("project", PROJECTS)
def test_tests_on_the_pages_pass(project: str, tmp_path: Path) -> None:
    folder = project_in(tmp_path, project)
    names = []
    for block in TESTS:
        if block.marks.get("project", "") == project:
            names.append(f"test_{len(names)}_{Path(block.page).stem.replace('-', '_').lower()}.py")
            (folder / names[-1]).write_text(block.block.text + "\n")
    run_python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--runtime", "simulated", *names)


@pytest.mark.parametrize("block", PROGRAMS, ids=lambda block: block.place)
def test_a_program_on_a_page_runs(block: PageBlock, tmp_path: Path) -> None:
    folder = project_in(tmp_path, block.marks.get("project", ""))
    (folder / "block.py").write_text(block.block.text + "\n")
    run_python(folder, "block.py")


@pytest.fixture(scope="module")
def plain_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("plain") / "run"
    with Cluster(runtime="process", links=False, folder=folder) as cluster:
        yield cluster


@pytest.mark.heavy
def test_clients_on_the_pages_reach_a_cluster(plain_cluster: Cluster, tmp_path: Path) -> None:
    endpoints = ProcessCluster.open(plain_cluster.run.path).ingress_endpoints()
    blocks = [block for block in HERE if "cluster" in block.marks]
    assert blocks
    for block in blocks:
        (tmp_path / "block.py").write_text(f"endpoints = {endpoints!r}\n{block.block.text}\n")
        run_python(tmp_path, "block.py")


@pytest.mark.heavy
@pytest.mark.nightly
def test_clients_over_tls_on_the_pages_reach_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["certificates", "create", "--dir", "certificates", "--members", "3"]) == 0
    assert main(["credentials", "add", "shopkeeper", "--file", "users", "--out", "shopkeeper.secret"]) == 0
    assert main(["up", "--dir", "safe", "--tls", "certificates", "--credentials", "users"]) == 0
    try:
        endpoints = ProcessCluster.open(tmp_path / "safe").ingress_endpoints()
        for block in HERE:
            if "tls" in block.marks:
                (tmp_path / "block.py").write_text(f"endpoints = {endpoints!r}\n{block.block.text}\n")
                run_python(tmp_path, "block.py")
    finally:
        ProcessCluster.open(tmp_path / "safe").down()
