"""The model of a custom service judges loads, scenarios and campaigns alike."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.load_runs import LoadCommands
from upheaval.checkers.promises import Promise

SERVICES = Path(__file__).resolve().parents[1] / "support" / "services"
# A right service is valid in loads every time.
NIGHTLY_RIGHT = pytest.param("Fenced", 0, marks=pytest.mark.nightly)
BY_MODEL = ("--user", "fenced_users:Holder", "--model", "fenced_model:Locks")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for module in ("fenced.py", "fenced_model.py", "fenced_users.py"):
        shutil.copy(SERVICES / module, tmp_path)
    return tmp_path


def upheaval(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "upheaval.cli.main", *words]
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=False)


def broken(told: str) -> dict[str, str]:
    return {each["promise"]: each["detail"] for each in json.loads(told)["promises"] if each["verdict"] != "valid"}


@pytest.mark.parametrize(("service", "status"), [NIGHTLY_RIGHT, ("LostUpdate", 1)])
def test_a_scenario_and_its_replay_are_judged_by_the_model(service: str, status: int, source: Path) -> None:
    named = ("--service", f"fenced:{service}", *BY_MODEL)
    done = upheaval(source, "run", "leader-killed", *named, "--runtime", "simulated", "--dir", "run", "--json")
    assert done.returncode == status, done
    assert list(broken(done.stdout)) == [Promise.LINEARIZABLE] * status
    again = upheaval(source, "replay", "run", "--dir", "again", "--json")
    assert (again.returncode, broken(again.stdout)) == (status, broken(done.stdout))


@pytest.mark.parametrize(("service", "status"), [NIGHTLY_RIGHT, ("StaleRead", 1)])
def test_a_load_is_judged_by_the_model(service: str, status: int, source: Path, load: LoadCommands) -> None:
    named = ("--service", f"fenced:{service}", *BY_MODEL)
    result = load.run(*named, "--users", "4", "--rate", "40", "--duration", "10s", "--members", "1", status=status)
    found = {each["promise"]: each["detail"] for each in result["promises"] if each["verdict"] != "valid"}
    invalid = [each["promise"] for each in result["promises"] if each["verdict"] == "invalid"]
    assert invalid == [Promise.LINEARIZABLE] * status, result
    later = upheaval(source, "verify", "run", "--json")
    assert (later.returncode, broken(later.stdout)) == (status, found)


@pytest.mark.parametrize(("service", "status"), [NIGHTLY_RIGHT, ("LostUpdate", 1)])
def test_a_campaign_is_judged_by_the_model(service: str, status: int, source: Path) -> None:
    done = upheaval(source, "campaign", "--seeds", "1", "--service", f"fenced:{service}", *BY_MODEL)
    assert done.returncode == status, done
    assert bool(re.search(r"invalid  linearizable \[linearizable\]\n +call ", done.stderr)) is bool(status)
    if status:
        assert "--model fenced_model:Locks --dir runs/seed-" in done.stderr


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("campaign", "--model", "fenced_model:Locks"), "--model is for a --service module:Class of your own"),
        (("run", "leader-killed", "--model", "x:Y", "--service", "ledger"), "--model is for a --service module:Class"),
        (
            ("run", "leader-killed", "--service", "fenced:Fenced", "--user", "fenced_users:Holder", "--model", "x:Y"),
            "model 'x:Y': ModuleNotFoundError: No module named 'x'",
        ),
    ],
)
def test_a_model_that_makes_no_sense_is_refused_in_one_line(options: tuple[str, ...], says: str, source: Path) -> None:
    done = upheaval(source, *options)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done
    assert says in done.stderr
