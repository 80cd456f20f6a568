"""`upheaval query`: the views hold what the figures of a run say, and nothing but a query is taken."""

import json
from pathlib import Path

import pytest

from support.built_runs import without_answers
from support.lakes import all_asked, asked
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report import Figures, measure_run
from upheaval_pipeline.duck import duck_engine
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.query import shown_tables
from upheaval_pipeline.tables import ROWS
from upheaval_pipeline.views import VIEWS

MS = 1_000_000


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Figures]:
    """One run in which a leader is killed, and its figures."""
    folder = tmp_path_factory.mktemp("query")
    assert main(["run", "leader-killed", "--runtime", "simulated", "--dir", str(folder / "run")]) == 0
    ingest(None, [folder / "run"], str(folder / "lake"))
    return str(folder / "lake"), measure_run(RunFolder(folder / "run"))


def test_views_hold_the_figures_of_the_run(lake: tuple[str, Figures]) -> None:
    where, figures = lake
    (ran,) = asked(where, "SELECT system, members, runtime, converged FROM ran", 10).rows
    assert ran == ("upheaval", 3, "simulated", True)
    (total,) = asked(where, "SELECT sum(answered), min(p50_ms) > 0 FROM latency", 10).rows
    assert total == (figures.counts["ok"], True)
    silences = asked(where, "SELECT length_ms, faults FROM silences ORDER BY begin_ns", 100).rows
    assert [length for length, _ in silences] == [pytest.approx((b - a) / MS) for a, b in figures.gaps]
    assert ["kill"] in [faults for _, faults in silences]
    (kept,) = asked(where, "SELECT silent_s, longest_s, available FROM availability", 10).rows
    assert kept[0] == pytest.approx(sum(b - a for a, b in figures.gaps) / 1e9)
    assert kept[1] == pytest.approx(max(b - a for a, b in figures.gaps) / 1e9)
    assert 0 < kept[2] < 1


@pytest.mark.parametrize("answered", [0, 5])
def test_times_without_answers_to_the_end_are_those_of_the_figures(answered: int, tmp_path: Path) -> None:
    run = without_answers(answered).write(tmp_path / "run")
    ingest(None, [tmp_path / "run"], str(tmp_path / "lake"))
    figures = measure_run(run)
    ((begin, end),) = figures.gaps
    assert end == figures.length_ns
    queries = ["SELECT length_ms FROM silences", "SELECT silent_s, available FROM availability"]
    silences, availability = all_asked(str(tmp_path / "lake"), queries, 10)
    assert silences.rows == ((pytest.approx((end - begin) / MS),),)
    ((silent_s, available),) = availability.rows
    assert silent_s == pytest.approx((end - begin) / 1e9)
    assert (available == 0) is (answered == 0)
    assert available < 0.01


def test_failovers_and_elections_are_those_of_the_run(lake: tuple[str, Figures]) -> None:
    where, figures = lake
    told = asked(where, "SELECT term, leader, until_answer_ms, until_led_ms FROM failovers ORDER BY term", 10).rows
    assert [(term, leader) for term, leader, _, _ in told] == [(term, leader) for _, term, leader in figures.terms[1:]]
    assert told[0][2] > told[0][3] > 0
    assert told[0][2] in [pytest.approx((b - a) / MS) for a, b in figures.gaps]
    states = asked(where, "SELECT DISTINCT state FROM elections WHERE length_ms >= 0", 100).rows
    assert {"CANVASS", "NOMINATE", "CANDIDATE_BALLOT"} <= {state for (state,) in states}


def test_every_table_and_view_is_listed_with_its_columns(lake: tuple[str, Figures]) -> None:
    with duck_engine() as engine:
        listed = shown_tables(engine, open_lake(lake[0]))
    assert [name for name, _, _ in listed] == [*ROWS, *(view.name for view in VIEWS)]
    assert all(row and columns for _, row, columns in listed)
    # These are about many runs.
    without = {
        "failures",
        "signatures",
        "flakes",
        "seed_outcomes",
        "seed_flakes",
        "coverage",
        "state_coverage",
        "tried",
    }
    without |= {"regressions", "changes", "splits", "trend", "objectives", "pairs", "track_record"}
    assert {name for name, _, columns in listed if "run varchar" not in columns} == without


def test_a_fault_that_was_never_healed_lasts_to_the_end(tmp_path: Path) -> None:
    assert main(["run", "leader-killed", "--runtime", "simulated", "--dir", str(tmp_path / "run")]) == 0
    file = RunFolder(tmp_path / "run").faults_file
    kept = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    for fault in kept:
        fault.update(heal_begin_ns=None, heal_end_ns=None, heal_proof=None, heal_operations=None)
    file.write_text("".join(json.dumps(fault) + "\n" for fault in kept), encoding="utf-8")
    ingest(None, [tmp_path / "run"], str(tmp_path / "lake"))
    begin = min(fault["inject_begin_ns"] for fault in kept)
    sql = f"SELECT is_under_fault, invoke_ns >= {begin}, count(*) FROM answers GROUP BY ALL ORDER BY 1"
    rows = asked(str(tmp_path / "lake"), sql, 10).rows
    assert [(under, later) for under, later, _ in rows] == [(False, False), (True, True)]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELEC 1", "the query cannot be run: "),
        ("SELECT nothing FROM ran", "nothing"),
        ("SELECT * FROM unheard_of", "unheard_of"),
        ("DROP VIEW ran", "the query cannot be run: "),
        ("INSERT INTO runs SELECT * FROM runs", "the query cannot be run: "),
        ("CREATE TABLE here AS SELECT 1", "the query cannot be run: "),
    ],
)
def test_what_is_no_query_is_refused_in_one_line(sql: str, said: str, lake: tuple[str, Figures]) -> None:
    with pytest.raises(UsageError) as raised:
        asked(lake[0], sql, 10)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(asked(lake[0], "SELECT * FROM ran", 10).rows) == 1


def test_a_folder_that_is_no_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a lake: nothing was committed to it"):
        open_lake(str(tmp_path))


def test_more_rows_than_wanted_are_cut_and_that_is_told(lake: tuple[str, Figures]) -> None:
    answer = asked(lake[0], "SELECT id FROM history ORDER BY id;", 3)
    assert [row[0] for row in answer.rows] == [0, 1, 2]
    assert answer.is_cut
    assert not asked(lake[0], "SELECT count(*) FROM history", 1).is_cut


@pytest.mark.parametrize("words", [[], ["SELECT 1", "--list"]])
def test_a_query_or_the_list_is_wanted(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["query", "--lake", "nowhere", *words]) == 2
    assert capsys.readouterr().err == "upheaval: name a query, or --list, and not both\n"
