"""The table of goals on its page, and the watch over goals that campaigns no longer reach."""

import json
from pathlib import Path

import pytest

import goals_table
import goals_watch
from goals_table import Reached
from upheaval.campaign.goals.table import GOALS

RECORD = Reached(40, {"often": 20, "sometimes": 4, "once": 1, "never": 0})


def test_the_page_has_the_table_of_the_record() -> None:
    text = goals_table.PAGE.read_text(encoding="utf-8")
    record = Reached.read(goals_table.RECORD)
    assert goals_table.page_with_table(text, record) == text
    assert record.goals.keys() <= {goal.name for goal in GOALS}
    assert "not measured" in goals_table.table(Reached(1, {}))


def test_a_goal_is_expected_of_enough_seeds_for_its_share() -> None:
    assert goals_watch.expected(RECORD, 10) == []
    assert goals_watch.expected(RECORD, 60) == ["often"]
    assert goals_watch.expected(RECORD, 3000) == ["often", "sometimes"]
    assert goals_watch.expected(RECORD, 1_000_000) == ["often", "sometimes"]


def test_an_expected_goal_that_is_not_reached_is_missing() -> None:
    assert goals_watch.missing(RECORD, Reached(3000, {"often": 1, "sometimes": 2})) == []
    assert goals_watch.missing(RECORD, Reached(3000, {"often": 0, "once": 3})) == ["often", "sometimes"]


def test_the_watch_ends_with_the_names_of_missing_goals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, summary = Reached.read(goals_table.RECORD), tmp_path / "summary.json"
    lost = goals_watch.expected(record, 500)[0]
    summary.write_text(json.dumps({"seeds": 500, "goals": {**record.goals, lost: 0}}))
    assert goals_watch.main([str(summary)]) == 1
    assert f"  {lost}: {record.goals[lost]} of {record.seeds} seeds" in capsys.readouterr().err
    summary.write_text(json.dumps({"seeds": 500, "goals": record.goals}))
    assert goals_watch.main([str(summary)]) == 0
    assert goals_watch.main([]) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"seed": 1}', "field 'seeds' must be an integer, not missing"),
        ('{"seeds": 3}', "field 'goals' must be an object, not missing"),
        ('{"seeds": 3, "goals": {"often": "3"}}', "field 'goals' must have the counts"),
        ('{"seeds": 0, "goals": {}}', "field 'goals' must have the counts of at least one seed"),
        ("[]", "not a JSON object"),
        (None, "cannot read"),
    ],
)
def test_a_file_that_is_no_summary_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, why: str
) -> None:
    file, record = tmp_path / "other.json", goals_table.RECORD.read_bytes()
    if text is not None:
        file.write_text(text)
    for tool in (goals_watch, goals_table):
        assert tool.main([str(file)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert why in line
    assert goals_table.RECORD.read_bytes() == record
