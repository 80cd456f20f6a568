"""`upheaval replay --until`: the members of a simulated run at a moment."""

import json
from pathlib import Path
from typing import Any

import pytest

from upheaval.campaign.seed import SeedOrigin, keep_seed
from upheaval.cli.main import main
from upheaval_chaos.exit_status import CommandStatus

TEXT = """title The leader is killed
wait operations 20
inject dead kill leader
wait leader other-than dead
wait operations 20
heal dead
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run in which the leader is killed."""
    folder = tmp_path_factory.mktemp("moments")
    (folder / "x.scenario").write_text(TEXT)
    options = ["--runtime", "simulated", "--seed", "3", "--dir", str(folder / "run")]
    # So short a run shows too little to be valid.
    assert main(["run", str(folder / "x.scenario"), *options]) == CommandStatus.UNKNOWN
    return folder / "run"


def injected_s(run: Path) -> float:
    """When the fault had taken effect, after the start of the run."""
    fault = json.loads((run / "faults.jsonl").read_text().splitlines()[0])
    return float(fault["inject_end_ns"]) / 1e9 - 1


def members_at(run: Path, seconds: float, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert main(["replay", str(run), "--until", str(seconds), "--json"]) == CommandStatus.VALID
    members: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["members"]
    return members


def test_members_are_shown_as_they_were(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = members_at(killed, injected_s(killed) - 0.05, capsys)
    assert [member["is_running"] for member in before] == [True] * 3
    assert sorted(member["role"] for member in before) == ["FOLLOWER", "FOLLOWER", "LEADER"]
    assert all(member["election_state"] == "CLOSED" for member in before)
    assert all(member["append_position"] >= member["commit_position"] > 0 for member in before)
    assert all(session["state"] == "OPEN" for member in before for session in member["sessions"])
    assert {len(member["sessions"]) for member in before} == {2}
    assert all("cluster/recording.log" in [file["path"] for file in member["files"]] for member in before)

    after = members_at(killed, injected_s(killed) + 0.01, capsys)
    dead = [member for member in after if not member["is_running"]]
    assert [(len(dead), dead[0]["sessions"], dead[0]["role"])] == [(1, [], None)]
    assert dead[0]["files"]
    assert before[dead[0]["member"]]["role"] == "LEADER"


def test_members_with_the_same_log_have_the_same_state(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    members = members_at(killed, injected_s(killed) - 0.05, capsys)
    services = [member["services"][0] for member in members]
    by_position: dict[int, set[str]] = {}
    for service in services:
        by_position.setdefault(service["log_position"], set()).add(service["digest"])
    assert all(len(digests) == 1 for digests in by_position.values())
    assert len(by_position) < len(services)


def test_a_person_gets_tables(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["replay", str(killed), "--until", str(injected_s(killed) + 0.01)]) == CommandStatus.VALID
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith(" s after the start of the run")
    assert [line for line in lines if line.split()[1:2] == ["down"]]
    assert any(line.startswith("session  state") for line in lines)


@pytest.mark.pure
def test_a_seed_of_a_campaign_is_played_up_to_a_moment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keep_seed(SeedOrigin(1, "commit-position-goes-back"), tmp_path / "seed")
    members = members_at(tmp_path / "seed", 0.05, capsys)
    assert all(member["is_running"] for member in members)
    assert main(["replay", str(tmp_path / "seed"), "--until", "1000"]) == CommandStatus.REFUSED
    assert "s after its start (" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--until", "9000"], "give an earlier moment"),
        (["--until", "1", "--dir", "x"], "--until keeps no run folder"),
        (["--until", "1", "--runtime", "process"], "--until is for simulated runs"),
    ],
)
def test_what_cannot_be_shown_is_said_in_a_line(
    killed: Path, options: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(killed), *options]) == CommandStatus.REFUSED
    assert why in capsys.readouterr().err


def test_a_run_of_processes_has_no_virtual_time(
    killed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("run.scenario", "result.json"):
        (tmp_path / name).write_text((killed / name).read_text().replace('"simulated"', '"process"'))
    assert main(["replay", str(tmp_path), "--until", "1"]) == CommandStatus.REFUSED
    assert "ran on the process runtime" in capsys.readouterr().err
