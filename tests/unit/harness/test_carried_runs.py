"""`upheaval carry` takes the text of the search for its run, and of no other run that had its name."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.seed_lines import SEED_FILE
from upheaval.campaign.shrink_text import SCENARIO_FILE
from upheaval.campaign.swarm import draw_swarm
from upheaval.campaign.swarm_tape import tape_of
from upheaval.campaign.text_tape import read_text_tape, tape_of_text
from upheaval.campaign.tries import TEXT_TRIES_FILE, TRIES_FILE, TryLog, search_fields
from upheaval.cli.main import main
from upheaval.execution.run import RESULT_FILE
from upheaval.records import Json, RunFolder
from upheaval_chaos.exit_status import CommandStatus
from upheaval_node.cluster.rules import OWN

LOST = Fingerprint("invalid", "acknowledged-not-lost", role="LEADER")
SEED = 123
TEXT = "title It fails\nwait operations 5\n"


def of_seed(run: Path) -> None:
    (run / SEED_FILE).write_text(json.dumps({"seed": SEED, "digest": "x"}))


def of_scenario(run: Path) -> None:
    RunFolder(run).scenario_file.write_text(TEXT)
    (run / RESULT_FILE).write_text(json.dumps({"scenario": "fails", "runtime": "simulated", "seed": SEED}))


def search_of_seed(smallest: Path, seed: int = SEED, planted: str | None = None, rules: str = OWN) -> None:
    code: dict[str, Json] = {"compatibility": rules}
    TryLog(smallest / TRIES_FILE, search_fields(seed, planted, LOST, tape_of(draw_swarm(seed)), code))
    search_of_text(smallest, 9, planted)


def search_of_text(smallest: Path, seed: int = SEED, planted: str | None = None, text: str = TEXT) -> None:
    TryLog(smallest / TEXT_TRIES_FILE, search_fields(seed, planted, LOST, read_text_tape(tape_of_text(text))))


def text_only(_smallest: Path) -> None:
    """Of a search without its tries."""


@pytest.fixture
def run(tmp_path: Path) -> Path:
    for name in ("7", "7-smallest", "taken"):
        (tmp_path / name).mkdir()
    (tmp_path / "taken" / "file").touch()
    (tmp_path / "7-smallest" / SCENARIO_FILE).write_text(TEXT)
    return tmp_path / "7"


def carried(run: Path) -> int:
    """Ends before the first try."""
    return main(["carry", str(run), "--system", "aeron", "--out", str(run.parent / "taken")])


@pytest.mark.parametrize(("make", "search"), [(of_seed, search_of_seed), (of_scenario, search_of_text)])
def test_the_text_of_its_own_search_is_taken(
    make: Callable[[Path], None], search: Callable[[Path], None], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(run)
    search(run.with_name("7-smallest"))
    for named in (run, run.with_name("7-smallest")):
        assert carried(named) == CommandStatus.REFUSED
        assert "taken exists and is not an empty folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("make", "search"),
    [
        (of_seed, text_only),
        (of_seed, search_of_text),
        (of_seed, lambda smallest: search_of_seed(smallest, 9)),
        (of_seed, lambda smallest: search_of_seed(smallest, planted="vote-not-persisted")),
        (of_seed, lambda smallest: search_of_seed(smallest, rules="aeron")),
        (of_scenario, text_only),
        (of_scenario, search_of_seed),
        (of_scenario, lambda smallest: search_of_text(smallest, 9)),
        (of_scenario, lambda smallest: search_of_text(smallest, text=TEXT + "wait operations 6\n")),
        (of_scenario, lambda smallest: search_of_text(smallest, planted="vote-not-persisted")),
    ],
)
def test_the_text_of_an_earlier_run_of_its_name_is_refused(
    make: Callable[[Path], None], search: Callable[[Path], None], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(run)
    search(run.with_name("7-smallest"))
    assert carried(run) == CommandStatus.REFUSED
    assert f"7-smallest is the search of another run than {run}: " in capsys.readouterr().err


def test_a_search_with_a_planted_bug_is_refused_by_its_own_name_too(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also when another run has the name of its own."""
    of_scenario(run)
    search_of_text(run.with_name("7-smallest"), planted="vote-not-persisted")
    assert carried(run.with_name("7-smallest")) == CommandStatus.REFUSED
    assert "7-smallest ran a planted bug or a service of its own" in capsys.readouterr().err
