"""The pytest plugin on containers, in a stranger's environment: the example, an image of the user's, every end."""

import io
import json
import signal
import tarfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.built_images import output_of
from support.docker_runs import left_of, upheaval
from support.stranger import (
    BANK,
    copy_of_the_bank,
    pytest_in,
    run_ids,
    wait_until_ended,
    waiting_pytest,
)
from support.wheels import make_wheel
from upheaval.runtimes.docker import labels
from upheaval.runtimes.docker.engine import Client

ON_DOCKER = ("--runtime", "docker")
TIMEOUT_S = 400
LARGE = 100_000_000
SOURCES_MAX = 300_000
"""Bytes of the example's own files, and of the folders that they lie in."""

FAILING = """
def test_it(cluster, workload):
    counts = workload.wait_for(20)
    assert counts is None
"""

MEASURING = """
from pathlib import Path

from upheaval.runtimes.docker.engine import connected

def test_sizes(cluster):
    with connected() as client:
        found = client.containers.list(filters={"label": f"upheaval.run-id={cluster.run.read_manifest().run_id}"})
        assert len(found) == 2
        for each in found:
            for name, command in (("size", "du -sb source"), ("files", "find source -type f")):
                status, output = each.exec_run(["sh", "-c", command])
                assert status == 0, output
                with Path(name).open("ab") as file:
                    file.write(output)
"""


@pytest.fixture
def bank_image(engine: Client, node_image: str) -> Iterator[str]:
    """An image as a user makes it: ours, and the service on top."""
    tag = "upheaval-test-bank:1"
    dockerfile = f"FROM {node_image}\nCOPY bank /opt/upheaval/bank\n".encode()
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        entry = tarfile.TarInfo("Dockerfile")
        entry.size = len(dockerfile)
        archive.addfile(entry, io.BytesIO(dockerfile))
        archive.add(BANK / "bank", "bank")
    context.seek(0)
    engine.images.build(fileobj=context, custom_context=True, tag=tag, rm=True)
    yield tag
    engine.images.remove(tag)


@pytest.mark.parametrize(
    ("chosen", "count"),
    [("survives or without_followers", 2), pytest.param("", 4, marks=pytest.mark.nightly)],
    ids=["with faults", "all"],
)
def test_the_tests_of_the_example_pass(
    chosen: str, count: int, tmp_path: Path, python: Path, node_image: str, link_images: None, engine: Client
) -> None:
    bank = copy_of_the_bank(tmp_path / "bank")
    options = ("-n", "2", "--keep-runs", "--junit-xml", "report.xml", "-k", chosen)
    done = pytest_in(bank, python, *ON_DOCKER, *options, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(ET.parse(bank / "report.xml").findall(".//testcase")) == count
    assert len(run_ids(bank)) == count
    assert [left for run_id in run_ids(bank) for left in left_of(engine, run_id)] == []


def test_an_image_of_the_users_brings_the_service(tmp_path: Path, python: Path, bank_image: str) -> None:
    bank = copy_of_the_bank(tmp_path / "bank")
    options = ("-o", f"upheaval_image={bank_image}", "-k", "happens_once", "--keep-runs")
    done = pytest_in(bank, python, *ON_DOCKER, *options, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (bank / "runs").iterdir()
    assert bank_image in (run / "cluster.json").read_text()
    assert not (run / "member-0" / "source").exists()


def test_a_service_beside_its_runs_is_copied_alone_and_not_back(
    tmp_path: Path, python: Path, node_image: str, engine: Client
) -> None:
    bank = copy_of_the_bank(tmp_path / "bank")
    (bank / "tests" / "test_sizes.py").write_text(MEASURING)
    for place in ("runs/earlier/member-0", "env/lib", "node_modules"):
        (bank / place).mkdir(parents=True)
        with (bank / place / "large").open("wb") as file:
            file.truncate(LARGE)
    (bank / "env" / "pyvenv.cfg").touch()
    (bank / "some.whl").touch()
    for _ in range(2):
        done = pytest_in(bank, python, *ON_DOCKER, "--members", "2", "-k", "sizes", "--keep-runs", timeout_s=TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr
    sizes = [int(line.split()[0]) for line in (bank / "size").read_text().splitlines()]
    assert len(sizes) == 4
    assert max(sizes) < SOURCES_MAX
    copied = set((bank / "files").read_text().splitlines())
    assert "source/bank/service.py" in copied
    assert not any("large" in each or each.endswith(".whl") or "runs/" in each for each in copied)
    kept = [each for each in (bank / "runs").iterdir() if each.name != "earlier"]
    assert len(kept) == 2
    for run in kept:
        assert not list(run.glob("member-*/source"))
        assert sum(each.stat().st_blocks * 512 for each in run.rglob("*") if each.is_file()) < LARGE


def test_the_image_of_a_service_has_its_packages(tmp_path: Path, python: Path, node_image: str, engine: Client) -> None:
    bank = copy_of_the_bank(tmp_path / "bank")
    make_wheel(tmp_path, "greeting")
    (bank / "requirements.txt").write_text("greeting\n")
    service = bank / "bank" / "service.py"
    service.write_text("import greeting\n" + service.read_text())
    tag = "upheaval-test-own:1"
    wheels = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path)}
    try:
        built = upheaval("images", "own", str(bank), "--tag", tag, "--offline", "--json", **wheels)
        assert built.returncode == 0, built.stderr
        assert json.loads(built.stdout)["files"] > 1
        options = ("-o", f"upheaval_image={tag}", "-k", "happens_once")
        done = pytest_in(bank, python, *ON_DOCKER, *options, timeout_s=TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr
        assert output_of(engine, tag, "ls /opt/own /opt/packages | grep -c -e runs -e greeting.py") == ["1"]
    finally:
        engine.images.remove(tag, force=True)


def test_a_failed_test_leaves_what_its_members_wrote(
    tmp_path: Path, python: Path, node_image: str, engine: Client
) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    done = pytest_in(tmp_path, python, *ON_DOCKER, "--members", "1", timeout_s=TIMEOUT_S)
    assert done.returncode == 1
    (run,) = (tmp_path / "runs").iterdir()
    assert "pytest test_it.py::test_it --upheaval-runtime docker --upheaval-members 1 --upheaval-seed 1" in done.stdout
    assert (run / "history.jsonl").stat().st_size > 0
    assert (run / "member-0" / "all.log").exists()
    assert (run / "member-0" / "trace.jsonl").stat().st_size > 0
    assert left_of(engine, run_ids(tmp_path)[0]) == []


@pytest.mark.parametrize(
    ("variables", "options", "says"),
    [
        ({"DOCKER_HOST": "unix:///nonexistent/docker.sock"}, (), "no Docker engine: its socket does not exist"),
        ({"DOCKER_HOST": "tcp://127.0.0.1:1"}, (), "no Docker engine answers"),
        ({}, ("-o", "upheaval_image=upheaval/nothing:1"), "the image upheaval/nothing:1 is missing"),
    ],
)
def test_what_is_missing_is_one_line(
    tmp_path: Path, python: Path, variables: dict[str, str], options: tuple[str, ...], says: str
) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text("def test_it(cluster): pass")
    done = pytest_in(tmp_path, python, *ON_DOCKER, *options, variables=variables)
    assert done.returncode == 1
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("upheaval: ")]
    assert says in line
    assert line.endswith("(without containers: runtimes simulated and process)")
    assert not (tmp_path / "runs").exists()


def test_nothing_is_left_after_a_signal_to_end(tmp_path: Path, python: Path, node_image: str, engine: Client) -> None:
    with waiting_pytest(tmp_path, python, *ON_DOCKER) as (started, run_id):
        assert left_of(engine, run_id)
        started.send_signal(signal.SIGTERM)
        assert wait_until_ended(started, run_id) == pytest.ExitCode.INTERRUPTED
        assert left_of(engine, run_id) == []


@pytest.mark.nightly
def test_the_next_start_removes_what_a_killed_pytest_left(
    tmp_path: Path, python: Path, node_image: str, engine: Client
) -> None:
    with waiting_pytest(tmp_path, python, *ON_DOCKER) as (started, run_id):
        labels.remove_abandoned(engine)
        assert left_of(engine, run_id)
        started.kill()
        wait_until_ended(started, run_id)
        assert left_of(engine, run_id)
        assert labels.remove_abandoned(engine)
        assert left_of(engine, run_id) == []
