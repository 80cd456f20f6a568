"""A `promise` line of a scenario demands a check, and takes nothing away: what else is wrong stays in the verdict."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import RunFolder, seal

TEXT = """title nothing is broken
workload rate=400
wait operations 120
promise at most one leader per term
promise linearizable
"""


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a valid run of a scenario that demands two promises."""
    folder = tmp_path_factory.mktemp("good")
    (folder / "demanding.scenario").write_text(TEXT)
    command = ["run", str(folder / "demanding.scenario"), "--runtime", "simulated", "--dir", str(folder / "run")]
    assert main(command) == 0
    return folder / "run"


def an_acknowledged_write_is_missing(run: RunFolder) -> None:
    lines = run.history_file.read_text().splitlines()
    answered: dict[str, Any] = next(each for each in map(json.loads, lines) if each["f"] == "write")
    last = max(json.loads(line)["id"] for line in lines)
    run.history_file.write_text("\n".join([*lines, json.dumps({**answered, "id": last + 1}), ""]))


def nothing_is_known_of_the_end_and_of_the_load(run: RunFolder) -> None:
    run.history_file.write_text("")
    run.write_manifest(replace(run.read_manifest(), converge=None))


def two_members_lead_one_term(run: RunFolder) -> None:
    lines = run.member(0).trace.read_text().splitlines()
    event = {**json.loads(lines[-1]), "event": "role", "role": "LEADER", "leadership_term_id": 0}
    leaders = [{**event, "member": member} for member in (0, 1)]
    for member, leader in enumerate(leaders):
        with run.member(member).trace.open("a") as stream:
            stream.write(json.dumps(leader) + "\n")


@pytest.mark.parametrize(
    ("damage", "promise", "verdict"),
    [
        (an_acknowledged_write_is_missing, Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID),
        (nothing_is_known_of_the_end_and_of_the_load, Promise.RUN_CONVERGED, Verdict.UNKNOWN),
        (two_members_lead_one_term, Promise.ONE_LEADER_A_TERM, Verdict.INVALID),
    ],
)
def test_a_damaged_folder_is_not_valid_whatever_its_scenario_demands(
    good: Path, tmp_path: Path, damage: Callable[[RunFolder], None], promise: Promise, verdict: Verdict
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(good, folder)
    run = RunFolder(folder)
    run.unseal()
    damage(run)
    seal(run)
    report = verify_run(folder)
    assert report.finding(promise).verdict is report.verdict is verdict, report.findings
    assert main(["verify", str(folder)]) == verdict.exit_status != 0


def test_a_run_and_the_verification_of_its_folder_say_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a scenario that demands what its run does not show, too; a replay demands it as well."""
    path, folder, again = (tmp_path / name for name in ("demanding.scenario", "run", "again"))
    path.write_text(f"{TEXT}promise states-agree\n")
    reports = []
    for command in (
        ["run", str(path), "--runtime", "simulated", "--dir", str(folder)],
        ["verify", str(folder)],
        ["replay", str(folder), "--dir", str(again)],
        ["verify", str(again)],
    ):
        assert main([*command, "--json"]) == Verdict.UNKNOWN.exit_status
        printed = json.loads(capsys.readouterr().out)
        reports.append((printed["verdict"], printed["promises"], printed["not_checked"]))
    assert reports[1:] == reports[:1] * 3
    unknown = [each["promise"] for each in reports[0][1] if each["verdict"] != "valid"]
    assert unknown == [Promise.STATES_AGREE]
