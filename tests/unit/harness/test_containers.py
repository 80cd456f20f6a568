"""What the docker runtime concludes without an engine: who is at fault for an end, what is labelled."""

import io
import os
import tarfile
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.errors import UsageError
from upheaval.images.checks import trial_labels
from upheaval.runtimes.cluster_file import check
from upheaval.runtimes.docker import collect, containers
from upheaval.runtimes.docker.container_state import own_fault
from upheaval.runtimes.docker.labels import RUN_ID, is_abandoned
from upheaval.system import ClusterSpec


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"Status": "running", "ExitCode": 0, "OOMKilled": False}, ""),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": False}, ""),
        ({"Status": "exited", "ExitCode": 5, "OOMKilled": False}, ""),
        ({"Status": "exited", "ExitCode": 1, "OOMKilled": False}, "ended with status 1"),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, "was ended by the kernel: out of memory"),
    ],
)
def test_an_end_is_the_members_own_fault_unless_we_ended_it(state: dict[str, object], fault: str) -> None:
    assert own_fault(state, expected=(5,)) == fault


def test_a_trial_of_an_image_belongs_to_a_harness_like_any_run() -> None:
    labels = trial_labels("upheaval/node:1")
    assert labels[RUN_ID] != trial_labels("upheaval/node:1")[RUN_ID]
    assert not is_abandoned(labels)
    assert is_abandoned({**labels, "upheaval.harness-start": "1"})


def test_a_service_that_only_the_image_has_is_not_looked_for_here() -> None:
    spec = ClusterSpec(service="nowhere.at_all:Thing")
    check(replace(spec, image="theirs:1").made("run"), "docker")
    with pytest.raises(UsageError, match="no module 'nowhere'"):
        check(spec.made("run"), "docker")


def packed(source: Path, ignored: tuple[str, ...], restore: Path | None = None) -> io.BytesIO:
    plan = containers.ContainerPlan(
        "member-0", {}, (), {}, "holder", "name", "volume", "image", {}, source=str(source), ignored=ignored
    )
    stream = io.BytesIO()
    containers._pack(replace(plan, restore=restore), stream)
    return stream


def test_a_container_gets_the_code_and_neither_runs_nor_environments(tmp_path: Path) -> None:
    for name in (
        "bank/service.py",
        "bank/runs/report.py",
        "bank/__pycache__/service.pyc",
        "runs/test-1/manifest.json",
        "kept/seal.json",
        "kept/member-0/archive/0-0.rec",
        "my-env/pyvenv.cfg",
        "my-env/lib/python3.11/site-packages/other.py",
        ".venv/lib/x.py",
        ".git/HEAD",
        ".pytest_cache/README.md",
        "dist/bank-1-py3-none-any.whl",
        "bank.egg-info/PKG-INFO",
        "data/prices.csv",
        "bank/table.csv",
        "docs/deep/page.md",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    with tarfile.open(fileobj=packed(tmp_path, ("*.csv", "docs/deep"))) as archive:
        files = {entry.name for entry in archive if entry.isreg()}
    assert files == {"source/bank/service.py", "source/bank/runs/report.py"}


def tar_of(*entries: tarfile.TarInfo) -> io.BytesIO:
    """An archive of entries without content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for entry in entries:
            archive.addfile(entry)
    stream.seek(0)
    return stream


def test_what_a_container_got_is_not_collected(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "service.py").write_text("")
    written = tmp_path / "written"
    (written / "archive" / "source").mkdir(parents=True)
    (written / "archive" / "source" / "0.rec").write_text("theirs")
    collect._unpack(packed(tmp_path / "code", (), written), tmp_path / "member-0")
    found = [str(path.relative_to(tmp_path / "member-0")) for path in (tmp_path / "member-0").rglob("*")]
    assert sorted(found) == ["archive", "archive/source", "archive/source/0.rec"]


@pytest.mark.parametrize("name", ["../outside", "archive/../../outside", "/outside"])
def test_names_that_lead_outside_of_a_run_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(tarfile.TarError, match="leads outside of the folder"):
        collect._unpack(tar_of(tarfile.TarInfo(name)), tmp_path / "member-0")
    assert not (tmp_path / "outside").exists()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_are_not_collected(kind: bytes, tmp_path: Path) -> None:
    link = tarfile.TarInfo("archive")
    link.type, link.linkname = kind, str(tmp_path)
    collect._unpack(tar_of(link, tarfile.TarInfo("archive/0.rec")), tmp_path / "member-0")
    assert (tmp_path / "member-0" / "archive").is_dir()
    assert not (tmp_path / "0.rec").exists()


def test_collected_files_have_their_bytes_and_times(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    written = tmp_path / "written"
    written.mkdir()
    (written / "trace.jsonl").write_bytes(b"{}")
    os.utime(written / "trace.jsonl", (1_000, 1_000))
    (written / "trace.jsonl").chmod(0o444)
    collect._unpack(packed(tmp_path / "code", (), written), tmp_path / "member-0")
    collected = tmp_path / "member-0" / "trace.jsonl"
    assert collected.read_bytes() == b"{}"
    assert collected.stat().st_mtime == 1_000
    assert collected.stat().st_mode & 0o600 == 0o600
