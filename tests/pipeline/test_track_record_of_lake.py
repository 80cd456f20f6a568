"""`upheaval track-record --lake`: the page of Aeron's known bugs from runs of a lake. Runs nothing, starts no Spark."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from support.lakes import asked
from support.run_rows import bad
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.cli.track_record import page
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.execution.known_bugs import KNOWN_BUGS, tries_of
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.lake_files import files_of, write_file
from upheaval_pipeline.tables import STORED, batches
from upheaval_pipeline.verdicts import verdict_rows
from upheaval_pipeline.version import reader_version
from upheaval_pipeline.whole import Judged

BUG, OTHER = KNOWN_BUGS[:2]
VALID = Report("/run", (Finding(Promise.RUN_CONVERGED, Verdict.VALID, "at 5"),))
FOUND = Report("/run", (replace(bad(BUG.promise), known_issue=int(BUG.issue)),))
STRANGE = Report("/run", (bad(Promise.APPLIED_ONCE),))
UNREADABLE = UsageError("its history is missing")
NOT_JUDGED = EnvironmentFault("no memory on this machine")
RUNS: tuple[tuple[str, str, str, Judged], ...] = (
    ("process", BUG.bad, BUG.scenario(BUG.bad).title, FOUND),
    ("process", BUG.bad, BUG.scenario(BUG.bad).title, FOUND),
    ("process", BUG.bad, BUG.scenario(BUG.bad).title, VALID),
    ("process", BUG.good[0], BUG.scenario(BUG.bad).title, VALID),
    ("process", BUG.good[0], BUG.scenario(BUG.bad).title, UNREADABLE),
    ("process", BUG.good[0], BUG.scenario(BUG.bad).title, NOT_JUDGED),
    ("docker", BUG.bad, BUG.scenario(BUG.bad).title, STRANGE),
    ("process", "0.1", BUG.scenario(BUG.bad).title, STRANGE),
    ("process", BUG.bad, "another scenario", STRANGE),
)
"""Runtime, version of Aeron, title of the scenario, and what the judge found."""


@pytest.fixture
def lake(tmp_path: Path) -> str:
    where = str(tmp_path / "lake")
    rows, judged = [], {}
    for number, (runtime, version, title, result) in enumerate(RUNS):
        run = f"run-{number}"
        manifest = replace(good_run(0).manifest, run_id=run, runtime=runtime, system=f"aeron:{version}").to_json()
        made = (run, f"/runs/{number}", runtime, 3, "test", 1, number, "", "", True, manifest, "[]", title)
        rows.append((*made, [], "2026-11-01T10:00:00+00:00", "1.0", "made", reader_version(), None, [("runs", 1)]))
        judged[run] = result
    opened = Lake(where)
    batch = opened.new_batch()
    columns = arrow_schema(STORED["runs"].removesuffix(", batch string"))
    written = write_file(where, "runs", batch, batches(rows, columns))
    written += write_file(where, "verdicts", batch, verdict_rows(judged, dict.fromkeys(judged, "made"), {}))
    opened.commit(files_of(written))
    return where


def test_the_page_has_the_cells_of_the_runs_of_the_lake_and_keeps_others(lake: str, tmp_path: Path) -> None:
    written, expected = tmp_path / "page.md", tmp_path / "expected.md"
    before = [tries_of(OTHER, version, [VALID]) for version in OTHER.versions]
    written.write_text(page(before, {}), encoding="utf-8")
    assert main(["track-record", "--lake", lake, "--out", str(written)]) == Verdict.UNKNOWN.exit_status
    done = [
        tries_of(BUG, BUG.bad, [FOUND, FOUND, VALID]),
        tries_of(BUG, BUG.good[0], [VALID], [str(UNREADABLE), "run-5 was not judged"]),
    ]
    expected.write_text(page([*done, *before], {}), encoding="utf-8")
    assert written.read_text(encoding="utf-8") == expected.read_text(encoding="utf-8")
    cells = [line.split(" | ")[1:5] for line in written.read_text(encoding="utf-8").splitlines()]
    assert [f"{BUG.bad} (has it)", "3", "2", "1"] in cells


def test_the_table_agrees_with_the_view(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of runs that could be judged, which are all that the view has."""
    assert main(["track-record", str(BUG.issue), "--lake", lake, "--json"]) == Verdict.UNKNOWN.exit_status
    shown = json.loads(capsys.readouterr().out)
    columns = "version, has_it, runs, found, valid"
    sql = f"SELECT {columns} FROM track_record WHERE runtime = 'process' ORDER BY version"
    assert asked(lake, sql, 9).rows == tuple(
        (one["version"], one["has_it"], one["tries"] - len(one["unclear"]), one["caught"], one["valid"])
        for one in shown
    )


def test_runs_of_another_runtime_are_apart(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["track-record", "--lake", lake, "--runtime", "docker", "--json"]
    assert main(words) == Verdict.UNKNOWN.exit_status
    (shown,) = json.loads(capsys.readouterr().out)
    assert (shown["version"], shown["tries"], shown["strange"]) == (BUG.bad, 1, [str(Promise.APPLIED_ONCE)])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([str(OTHER.issue)], "has no runs of these bugs with --runtime process"),
        (["--tries", "2"], "--dir and --tries are of new runs, and --lake takes those that it has"),
        (["--dir", "runs"], "--dir and --tries are of new runs, and --lake takes those that it has"),
    ],
)
def test_what_a_lake_cannot_give_is_refused(
    words: list[str], reason: str, lake: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["track-record", *words, "--lake", lake]) == 2
    assert reason in capsys.readouterr().err
