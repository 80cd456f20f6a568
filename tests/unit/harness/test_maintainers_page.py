"""The page for maintainers has one form, and says what it does not know before it says what it does."""

import html
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from support.bad_runs import BAD_RUNS, copy_of_good_run
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.cli.report import write_for_maintainers
from upheaval.records import Expected, RunFolder
from upheaval.report import Moments
from upheaval.report.maintainers import EVENTS_MOST, maintainers_page
from upheaval.ui.run_page import page_of_run

SECTIONS = [
    "Limits of this claim",
    "What ran",
    "Schedule",
    "What was seen",
    "Messages and changes of state",
    "What was lost",
    "Again",
]
BAD = next(bad for bad in BAD_RUNS if bad.promise is Promise.ACKNOWLEDGED_NOT_LOST)


@pytest.fixture(scope="module")
def bad_run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    folder = tmp_path_factory.mktemp("maintainers") / "run"
    copy_of_good_run(BAD.scenario, folder)
    BAD.damage(folder)
    return RunFolder(folder)


def test_each_broken_promise_has_all_sections_in_order(bad_run: RunFolder) -> None:
    report = verify_run(bad_run.path)
    page = maintainers_page(bad_run, report, "unused")
    broken = [finding for finding in report.findings if finding.verdict.text == "invalid"]
    assert [line for line in page.splitlines() if line.startswith("# ")] == [
        f"# {finding.promise.sentence} [{finding.promise}]: broken"
        for finding in report.worst_first
        if finding in broken
    ]
    assert [line[3:] for line in page.splitlines() if line.startswith("## ")] == SECTIONS * len(broken)
    for finding in broken:
        assert finding.evidence in page
    fault = next(iter(bad_run.read_faults()))
    assert f"| `{fault.statement}` |" in page
    assert f"| {fault.evidence} |" in page
    assert "upheaval run finding.scenario --runtime simulated --system upheaval --seed 1\n" in page
    assert f"```text\n{bad_run.scenario_file.read_text().rstrip()}\n```" in page


def test_what_was_lost_is_the_operation_of_the_finding(bad_run: RunFolder) -> None:
    report = verify_run(bad_run.path)
    (lost,) = (finding for finding in report.findings if finding.promise is Promise.ACKNOWLEDGED_NOT_LOST)
    assert lost.operation is not None
    page = maintainers_page(bad_run, replace(report, findings=(lost,)), "unused")
    assert f"Operation {lost.operation}: asked at " in page
    page = maintainers_page(bad_run, replace(report, findings=(replace(lost, operation=None),)), "unused")
    assert "The finding is about no single operation of a client." in page


def test_messages_are_those_nearest_to_the_moment(bad_run: RunFolder) -> None:
    report = verify_run(bad_run.path)
    (lost,) = (finding for finding in report.findings if finding.promise is Promise.ACKNOWLEDGED_NOT_LOST)
    page = maintainers_page(bad_run, replace(report, findings=(lost,)), "unused")
    table = page.partition("## Messages")[2].partition("## What was lost")[0].splitlines()
    rows = [line.split(" | ") for line in table if line.startswith("| ") and "| s |" not in line]
    assert 0 < len(rows) <= EVENTS_MOST
    assert any(row[2] == "election_state" for row in rows)
    assert not any(row[2].startswith(("CommitPosition", "AppendPosition")) for row in rows)
    times = [float(row[0].removeprefix("| ")) for row in rows]
    assert times == sorted(times)


def test_limits_come_from_the_run(bad_run: RunFolder) -> None:
    report = verify_run(bad_run.path)
    known = replace(report.worst_first[0], known_issue=2147)
    page = maintainers_page(bad_run, replace(report, findings=(known,)), "unused")
    limits = page.partition("## Limits of this claim")[2].partition("## What ran")[0]
    assert "- It has the signature of a known bug: as Aeron issue 2147 does." in limits
    assert "planted" not in limits
    manifest = bad_run.read_manifest()
    bad_run.write_manifest(replace(manifest, planted="commit-without-a-quorum"))
    try:
        page = maintainers_page(bad_run, report, "unused")
    finally:
        bad_run.write_manifest(manifest)
    assert "- The members have a planted bug, commit-without-a-quorum: this is no finding." in page


def test_the_command_has_the_service_and_the_planted_bug_of_the_run(bad_run: RunFolder, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(bad_run.path, run)
    own = {"service": "shop:Shop", "user": "shop:Buyer", "model": "shop:Model"}
    manifest = RunFolder(run).read_manifest()
    made = replace(manifest, service=own["service"], planted="commit-without-a-quorum", source_digest="ab12")
    RunFolder(run).write_manifest(made)
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, "own": own}))
    again = write_for_maintainers(run).read_text().partition("## Again")[2]
    chosen = "--planted commit-without-a-quorum --service=shop:Shop --user=shop:Buyer --model=shop:Model"
    assert f"--system upheaval --seed 1 {chosen}\n" in again
    assert "It needs the code of `shop:Shop`, SHA-256 ab12." in again


def test_the_command_of_an_exact_script_names_no_system(bad_run: RunFolder) -> None:
    manifest, report = bad_run.read_manifest(), verify_run(bad_run.path)
    bad_run.write_manifest(replace(manifest, expected=(Expected("Vote", (), None, None, ()),)))
    try:
        page = maintainers_page(bad_run, report, "unused")
    finally:
        bad_run.write_manifest(manifest)
    assert "upheaval run finding.scenario --runtime simulated --seed 1\n" in page


def test_a_run_without_a_history_has_its_pages(bad_run: RunFolder, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(bad_run.path, run)
    log = run / "member-1" / "archive" / "0-0.rec"
    content = bytearray(log.read_bytes())
    content[2000] ^= 1
    log.write_bytes(content)
    (run / "history.jsonl").unlink()
    RunFolder(run).unseal()
    report = verify_run(run)
    broken = report.finding(Promise.LOGS_EQUAL)
    assert broken.verdict is Verdict.INVALID
    assert broken.detail in maintainers_page(RunFolder(run), report, "unused")
    assert html.escape(broken.detail) in page_of_run(run)
    assert Moments(RunFolder(run)).start_ns is not None


def test_the_command_writes_it_beside_the_verdict(bad_run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    before = verify_run(bad_run.path).to_fields()
    assert main(["report", "--for-maintainers", str(bad_run.path)]) == 0
    path = bad_run.path / "maintainers.md"
    assert capsys.readouterr().out == f"{path}\n"
    assert path.read_text().startswith("# ")
    assert verify_run(bad_run.path).to_fields() == before


def test_a_run_that_broke_nothing_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy_of_good_run(BAD.scenario, tmp_path / "run")
    assert main(["report", "--for-maintainers", str(tmp_path / "run")]) == 2
    assert capsys.readouterr().err == (
        f"upheaval: {tmp_path / 'run'} broke no promise (valid): there is nothing to report\n"
    )
    assert not (tmp_path / "run" / "maintainers.md").exists()
