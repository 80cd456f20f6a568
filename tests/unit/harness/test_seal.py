"""The seal of a run: digests of files with holes and without, and who breaks it."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from support.bad_runs import copy_of_good_run
from support.built_runs import good_run
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.cli.main import main
from upheaval.records import CLUSTER_FILE, CompanionConfig, FinalPosition, RunFolder, note_companion, read_seal, seal
from upheaval.records.run_seal import digest_of_file
from upheaval.runtimes import cluster_file
from upheaval.runtimes.opening import create_cluster
from upheaval.system import ClusterSpec
from upheaval_node.tool.answer import FAILURE


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = good_run(count=20).write(tmp_path / "run")
    seal(folder)
    return folder


def found(run: RunFolder) -> Finding:
    return verify_run(run.path).finding(Promise.EVIDENCE_SEALED)


def test_a_copy_without_holes_has_the_same_digest(tmp_path: Path) -> None:
    sparse, whole = tmp_path / "sparse", tmp_path / "whole"
    with sparse.open("wb") as stream:
        stream.write(b"begin")
        stream.seek(1_000_000)
        stream.write(b"middle")
        stream.truncate(3_000_000)
    whole.write_bytes(sparse.read_bytes())
    assert digest_of_file(sparse) == digest_of_file(whole)


@pytest.mark.parametrize("place", [0, 70_000, 999_999, 1_000_006, 2_999_999])
def test_every_byte_counts_also_in_holes(tmp_path: Path, place: int) -> None:
    path = tmp_path / "file"
    with path.open("wb") as stream:
        stream.seek(1_000_000)
        stream.write(b"middle")
        stream.truncate(3_000_000)
    before = digest_of_file(path)
    with path.open("r+b") as stream:
        stream.seek(place)
        stream.write(b"\7")
    assert digest_of_file(path) != before


def test_the_same_bytes_elsewhere_are_not_the_same(tmp_path: Path) -> None:
    digests = set()
    for place in (0, 65_536, 131_072):
        path = tmp_path / str(place)
        with path.open("wb") as stream:
            stream.seek(place)
            stream.write(b"x" * 10)
            stream.truncate(262_144)
        digests.add(digest_of_file(path))
    assert len(digests) == 3


def test_a_large_file_of_holes_is_read_where_it_holds_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    with path.open("wb") as stream:
        stream.seek(1 << 33)
        stream.write(b"x")
        stream.truncate(1 << 34)
    read = []
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, place: read.append(place) or pread(fd, length, place))
    digest_of_file(path)
    assert read == [1 << 33]


def test_a_sealed_run_is_valid_and_says_so(run: RunFolder) -> None:
    assert found(run).verdict is Verdict.VALID
    assert "files are as they were" in found(run).detail


def test_what_is_written_about_a_run_is_no_part_of_the_seal(run: RunFolder) -> None:
    for name in ("report.html", "result.json", "load.log", "run.scenario", "cluster.json"):
        (run.path / name).write_text("{}")
    assert found(run).verdict is Verdict.VALID


@pytest.mark.parametrize("field", ["jvm", "launcher"])
def test_the_cluster_file_of_a_live_run_is_part_of_the_seal(field: str, tmp_path: Path) -> None:
    run = good_run(count=20).write(tmp_path)
    run.change_manifest(lambda manifest: replace(manifest, written=(*manifest.written, CLUSTER_FILE)))
    path = tmp_path / CLUSTER_FILE
    path.write_text("{}")
    seal(run)
    assert found(run).verdict is Verdict.VALID
    path.write_text(f'{{"{field}": "x"}}')
    assert (found(run).verdict, found(run).detail.split()[0]) == (Verdict.INVALID, CLUSTER_FILE)


def test_a_live_run_names_its_cluster_file_and_breaks_its_seal_with_a_change_of_it(tmp_path: Path) -> None:
    with create_cluster("process", tmp_path, ClusterSpec()) as cluster:
        seal(cluster.run)
        assert CLUSTER_FILE in read_seal(cluster.run, cluster.run.seal_file.read_text()).files
        cluster_file.save(cluster.config, cluster.runtime, tmp_path)
        assert cluster.run.read_manifest().sealed is None


def test_the_scenario_that_a_run_began_with_is_part_of_the_seal(tmp_path: Path) -> None:
    run = good_run(count=20).write(tmp_path)
    run.write_scenario("title Mine\n")
    seal(run)
    assert found(run).verdict is Verdict.VALID
    run.scenario_file.write_text("title Another\n")
    finding = found(run)
    assert (finding.verdict, finding.detail.split()[0]) == (Verdict.INVALID, "run.scenario")


@pytest.mark.parametrize(
    ("demands", "verdict"),
    [
        ("  promise votes-kept # of elections\npromise the run converged\n", Verdict.VALID),
        ("promise votes-kept\n", Verdict.INVALID),
        ("promise votes-kept\npromise run-converged\npromise logs-equal\n", Verdict.INVALID),
        ("# promise run-converged\npromise votes-kept\n", Verdict.INVALID),
    ],
)
def test_the_run_demands_the_promises_that_its_scenario_demands(tmp_path: Path, demands: str, verdict: Verdict) -> None:
    run = good_run(count=20).write(tmp_path)
    run.write_manifest(replace(run.read_manifest(), demanded=("votes-kept", "run-converged")))
    run.write_scenario(f"title Mine\n{demands}")
    assert verify_run(tmp_path).finding(Promise.EVIDENCE_BOUND).verdict is verdict


def test_a_second_seal_does_not_hide_a_change(run: RunFolder) -> None:
    with run.member(1).trace.open("a") as trace:
        trace.write('{"ts":2,"event":"more"}\n')
    seal(run)
    assert found(run).verdict is Verdict.INVALID


def why_unchecked(run: RunFolder) -> str:
    return {each.promise: each.why for each in verify_run(run.path).unchecked}[Promise.EVIDENCE_SEALED]


def test_the_files_of_a_run_that_goes_on_are_compared_with_nothing(tmp_path: Path) -> None:
    assert why_unchecked(good_run(count=20).write(tmp_path)).startswith("not sealed: the run goes on")


@pytest.mark.parametrize("has_converged", [True, False])
@pytest.mark.parametrize("ended", [0, 2, 3])
def test_a_run_that_converged_and_whose_members_all_ended_must_be_sealed(
    ended: int, tmp_path: Path, *, has_converged: bool
) -> None:
    run = good_run(count=20).write(tmp_path)
    for member in range(ended):
        with run.member(member).trace.open("a") as trace:
            trace.write('{"ts":2,"component":"all","event":"process-end","status":0}\n')
    if not has_converged:
        run.change_manifest(lambda manifest: replace(manifest, converge=None))
    if ended == 3 and has_converged:
        assert (found(run).verdict, found(run).detail.split(",")[0]) == (Verdict.UNKNOWN, "not sealed")
    else:
        assert why_unchecked(run).startswith("not sealed: the run goes on")


def test_a_simulated_run_is_sealed_as_it_is_written(tmp_path: Path) -> None:
    run = good_run(count=20).write(tmp_path)
    run.change_manifest(lambda manifest: replace(manifest, runtime="simulated"))
    assert found(run).verdict is Verdict.UNKNOWN
    seal(run)
    assert found(run).verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("command", "status"), [("sort-recording-log", FAILURE & 0xFF), ("invalidate-latest-snapshot", 0)]
)
def test_a_command_of_the_tool_seals_a_run_again(command: str, status: int, tmp_path: Path) -> None:
    copy_of_good_run("snapshot-and-restart", tmp_path)
    assert main(["tool", str(tmp_path / "member-1"), command]) == status
    assert found(RunFolder(tmp_path)).verdict is Verdict.VALID


def test_a_command_of_the_tool_on_a_run_without_a_seal_leaves_it_so(tmp_path: Path) -> None:
    copy_of_good_run("snapshot-and-restart", tmp_path)
    RunFolder(tmp_path).unseal()
    assert main(["tool", str(tmp_path / "member-1"), "invalidate-latest-snapshot"]) == 0
    assert RunFolder(tmp_path).read_manifest().sealed is None


def test_a_command_of_the_tool_hides_no_earlier_change(tmp_path: Path) -> None:
    copy_of_good_run("snapshot-and-restart", tmp_path)
    with RunFolder(tmp_path).member(0).trace.open("a") as trace:
        trace.write('{"ts":2,"event":"more"}\n')
    main(["tool", str(tmp_path / "member-1"), "invalidate-latest-snapshot"])
    assert found(RunFolder(tmp_path)).verdict is Verdict.INVALID


def adds_an_operation(run: RunFolder) -> None:
    with run.history_writer():
        pass


def adds_a_companion(run: RunFolder) -> None:
    note_companion(run.path, CompanionConfig("backup-0", "ANY"))


def writes_the_manifest(run: RunFolder) -> None:
    run.write_manifest(run.read_manifest())


@pytest.mark.parametrize("act", [adds_an_operation, adds_a_companion, writes_the_manifest])
def test_a_run_that_goes_on_breaks_its_seal_and_can_be_sealed_again(run: RunFolder, act: object) -> None:
    assert callable(act)
    act(run)
    with run.member(1).trace.open("a") as trace:
        trace.write('{"ts":2,"event":"more"}\n')
    assert why_unchecked(run).startswith("not sealed")
    seal(run)
    assert found(run).detail.endswith("as they were when the run was collected")


def test_a_companion_that_is_noted_as_it_was_breaks_no_seal(run: RunFolder) -> None:
    adds_a_companion(run)
    seal(run)
    adds_a_companion(run)
    assert run.read_manifest().sealed is not None


def test_a_final_position_that_was_changed_is_found(run: RunFolder) -> None:
    manifest = run.manifest_file.read_text()
    (first, *_) = run.read_manifest().converge.members  # type: ignore[union-attr]
    assert isinstance(first, FinalPosition)
    run.manifest_file.write_text(manifest.replace(str(first.commit_position), str(first.commit_position - 32)))
    assert "manifest.json was changed" in found(run).detail
