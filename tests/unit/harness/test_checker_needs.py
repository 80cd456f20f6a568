"""Every file that a row of the table opens is covered by what it says that it needs, and what is gone is unknown."""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path, PurePath

import pytest

from support.bad_runs import copy_of_good_run
from support.built_runs import good_run
from upheaval.checkers.checker import FILES, Checker, Source, sources_of
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.judge import judge, verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.table import CHECKERS
from upheaval.checkers.verdict import Verdict
from upheaval.records import ClientStall, Origin, RunFolder, write_origin
from upheaval_chaos.record import FaultRecord

_SCENARIO = "backup-loses-its-source"
_opened: list[str] | None = None


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _opened is not None:
        _opened.append(str(arguments[0]))


sys.addaudithook(_note)


def opened_by(checkers: Iterable[Checker], folder: Path) -> list[str]:
    """The files of the run folder that they open, each as often as it is opened, by their paths in it."""
    global _opened
    evidence = Evidence(RunFolder(folder, at_rest=True))
    _opened = []
    try:
        for checker in checkers:
            list(checker.check(evidence))
        paths = [Path(name) for name in _opened]
    finally:
        _opened = None
    return sorted(str(path.relative_to(folder)) for path in paths if path.is_relative_to(folder))


def _rich_run(folder: Path) -> Path:
    """A run with one of each file that a checker may open."""
    copy_of_good_run(_SCENARIO, folder)
    run = RunFolder(folder)
    manifest = run.read_manifest()
    for member_id in range(manifest.members):
        (run.member(member_id).path / "config.json").write_text(json.dumps({"member_id": member_id}))
        (run.member(member_id).path / "process.log").write_text("")
    (folder / "cluster.json").write_text("{}")
    (folder / "backup-0" / "process.log").write_text("")
    (folder / "security.json").write_text(json.dumps({"principals": [""], "authorities": ["authority"]}))
    run.add_client_stall(ClientStall(1, 2))
    write_origin(folder, Origin("/x/backup-0", "run-0", 0, 0, "", (), 0))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A run of the node, and one of members that trace no messages."""
    own = _rich_run(tmp_path_factory.mktemp("own"))
    foreign = _rich_run(tmp_path_factory.mktemp("foreign"))
    run = RunFolder(foreign)
    run.consensus_file.write_text('{"ts":1,"event":"watch-begin"}\n')
    run.write_manifest(replace(run.read_manifest(), system="aeron:1.51.0"))
    return {"own": own, "foreign": foreign}


@pytest.mark.parametrize("which", ["own", "foreign"])
@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: checker.name)
def test_it_opens_nothing_that_it_does_not_need(checker: Checker, which: str, folders: dict[str, Path]) -> None:
    patterns = ["manifest.json", *(pattern for source in checker.needs for pattern in FILES[source])]
    found = opened_by([checker], folders[which])
    others = [path for path in found if not any(PurePath(path).match(pattern) for pattern in patterns)]
    assert others == [], f"{checker.name} opens more than its needs cover"


def test_a_history_is_read_once(tmp_path: Path) -> None:
    """All whole operations are in memory for no checker, so each more reading costs as much as the first one."""
    run = good_run(count=50)
    run.faults.append(FaultRecord("pause", "member-1", 5, 6, 7, 8, None, None, (1,), inject_operations=1))
    run.manifest = replace(run.manifest, workload={"keys": 4})
    folder = run.write(tmp_path)
    folder.write_scenario("title Mine\n")
    assert opened_by(CHECKERS, tmp_path).count(folder.history_file.name) == 1


def test_every_source_has_files_in_the_rich_runs(folders: dict[str, Path]) -> None:
    """So that the test above can fail for each."""
    files = [str(path.relative_to(folder)) for folder in folders.values() for path in folder.rglob("*")]
    files += ["seal.json"]  # editing the good run has broken its seal
    without = [
        source
        for source, patterns in FILES.items()
        if source is not Source.CODE
        and not any(PurePath(file).match(pattern) for file in files for pattern in patterns)
    ]
    assert without == []


@pytest.mark.parametrize(
    "source",
    [Source.HISTORY, Source.SESSIONS, Source.ATTEMPTS, Source.FAULTS, Source.CONTROLS, Source.SCENARIO],
)
def test_a_file_that_was_there_when_the_run_began_and_is_gone_is_no_silence(source: Source, tmp_path: Path) -> None:
    copy_of_good_run(_SCENARIO, tmp_path)
    (name,) = FILES[source]
    (tmp_path / name).unlink()
    report = verify_run(tmp_path)
    promises = [promise for checker in CHECKERS if source in checker.needs for promise in checker.promises]
    assert promises
    for promise in promises:
        finding = report.finding(promise)
        assert (finding.verdict, finding.detail.split()[0]) == (Verdict.UNKNOWN, name), finding


def test_a_file_of_a_member_that_the_manifest_names_is_missed_too(tmp_path: Path) -> None:
    copy_of_good_run(_SCENARIO, tmp_path)
    run = RunFolder(tmp_path)
    name = "member-1/trace.jsonl"
    run.write_manifest(replace(run.read_manifest(), written=(*run.read_manifest().written, name)))
    (tmp_path / name).unlink()
    report = verify_run(tmp_path)
    for checker in CHECKERS:
        if Source.TRACES in checker.needs:
            findings = [report.finding(promise) for promise in checker.promises]
            assert all(each.detail == f"{name} is missing, which was there when the run began" for each in findings)


@pytest.mark.parametrize(
    ("name", "sources"),
    [
        ("history.jsonl", [Source.HISTORY]),
        ("member-0/archive/0-0.rec", [Source.ARCHIVES]),
        ("backup-1/archive/0-0.rec", [Source.COMPANIONS]),
        ("member-0/history.jsonl", []),
        ("member-0/archive/more/0-0.rec", []),
        ("cluster.json", [Source.CONFIGURATIONS]),
    ],
)
def test_a_file_is_of_the_sources_whose_patterns_it_matches(name: str, sources: list[Source]) -> None:
    assert sources_of(name) == sources


def test_a_folder_that_names_no_files_is_judged_by_those_that_it_has(tmp_path: Path) -> None:
    copy_of_good_run(_SCENARIO, tmp_path)
    run = RunFolder(tmp_path)
    run.write_manifest(replace(run.read_manifest(), written=()))
    run.sessions_file.unlink()
    assert verify_run(tmp_path).finding(Promise.CLIENTS_IN_TIME).verdict is Verdict.VALID


def test_a_checker_whose_evidence_is_gone_is_not_called(tmp_path: Path) -> None:
    copy_of_good_run(_SCENARIO, tmp_path)
    (tmp_path / "sessions.jsonl").unlink()

    def fail(_: Evidence) -> list[object]:
        raise AssertionError("called")

    checker = Checker("x", (Promise.LINEARIZABLE,), frozenset({Source.SESSIONS}), fail)  # type: ignore[arg-type]
    report = judge(Evidence(RunFolder(tmp_path, at_rest=True)), [checker])
    assert report.finding(Promise.LINEARIZABLE).detail.startswith("sessions.jsonl is missing")
