"""The verdicts that a lake keeps, and the views of them: failures by what was broken, and flakes."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.bad_runs import BAD_RUNS, copy_of_good_run
from support.lakes import as_of_another_version, asked, judged_in_lake
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.severe_error import SevereError
from upheaval.checkers.signature import LEADER, Rule, Signature
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Verdict
from upheaval.records import RunFolder
from upheaval.scenario import load_scenario
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.verdicts import judged_by_this_version, write_verdicts

GOOD, BAD = "7a", "7b"
BROKEN = next(bad for bad in BAD_RUNS if bad.promise is Promise.EVIDENCE_SEALED)


def renamed(folder: Path, run: str) -> Path:
    """Another run, with the same contents."""
    manifest = folder / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "run_id": run}))
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Two runs of one scenario, one of them damaged."""
    folder = tmp_path_factory.mktemp("verdicts")
    for name in (GOOD, BAD):
        (folder / name).mkdir()
        copy_of_good_run(BROKEN.scenario, folder / name)
    BROKEN.damage(folder / BAD)
    return {name: folder / name for name in (GOOD, BAD)}


@pytest.fixture(scope="module")
def lake(folders: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory, spark: Any) -> str:
    where = str(tmp_path_factory.mktemp("lake") / "lake")
    renamed(folders[BAD], BAD)
    ingest(spark, list(folders.values()), where)
    return where


def test_a_lake_gives_a_report_back_with_everything_that_it_had(
    lake: str, folders: Mapping[str, Path], spark: Any
) -> None:
    """Known issues, signatures, gaps and errors of members, too, which no run of this lake has."""
    run = RunFolder(folders[GOOD]).read_manifest().run_id
    before = judged_by_this_version(open_lake(lake), [run])
    known = Finding(
        Promise.COMMITS_KEPT,
        Verdict.INVALID,
        "member 1 called position 96 committed",
        (1,),
        96,
        signature=Signature(Rule.EARLIER_TERM_COUNTED, role=LEADER),
        known_issue=2147,
        errors=(SevereError(1, 3, "module: FATAL - no memory", "member-1/trace.jsonl:2", "at Main.java:7"),),
    )
    report = Report(
        str(folders[GOOD]),
        (
            known,
            replace(known, known_issue=None, known_cause="Aeron before commit ba9e9c1df7", errors=()),
            Finding(Promise.LINEARIZABLE, Verdict.VALID, "200 operations", when_ns=(70, 90)),
        ),
        (NotApplicable(Promise.SNAPSHOT_IS_REPLAY, "states are not replayed: no code", is_gap=True),),
    )
    write_verdicts(open_lake(lake), {run: report})
    again = judged_by_this_version(open_lake(lake), [run])
    assert again == {run: report}
    assert isinstance(again[run], Report)
    assert [finding.errors for finding in again[run].findings] == [known.errors, (), ()]
    assert [finding.when_ns for finding in again[run].findings] == [None, None, (70, 90)]
    write_verdicts(open_lake(lake), before)


def test_a_lake_keeps_what_came_of_its_runs(lake: str, folders: Mapping[str, Path], spark: Any) -> None:
    rows = dict(asked(lake, "SELECT run, verdict FROM judged", 10).rows)
    good = RunFolder(folders[GOOD]).read_manifest().run_id
    assert rows == {good: "valid", BAD: "invalid"}
    (broken,) = asked(lake, f"SELECT broken FROM judged WHERE run = '{BAD}'", 10).rows
    assert Promise.EVIDENCE_SEALED in broken[0]
    ((found, runs, examples),) = asked(lake, "SELECT broken, runs, examples FROM failures", 10).rows
    assert (found, runs, examples) == (broken[0], 1, [BAD])
    (flaky,) = asked(lake, "SELECT runs, not_valid, rate, lowest, highest, scenario FROM flakes", 10).rows
    # Wilson's interval of one of two.
    assert flaky[:5] == (2, 1, 0.5, pytest.approx(0.0945, abs=1e-4), pytest.approx(0.9055, abs=1e-4))
    assert flaky[5] == load_scenario(BROKEN.scenario).title


def verdict_rows(spark: Any, lake: str) -> Any:
    return asked(lake, "SELECT * FROM verdicts ORDER BY run, number", 1000).rows


def test_who_judges_again_replaces_it_and_a_run_that_has_changed_has_a_new_one(
    lake: str, folders: Mapping[str, Path], spark: Any
) -> None:
    first = verdict_rows(spark, lake)
    as_of_another_version(Path(lake))
    assert verdict_rows(spark, lake) == first
    opened = open_lake(lake)
    judged_in_lake(spark, opened, opened.runs("runs"))
    assert verdict_rows(spark, lake) == first
    assert judged_by_this_version(open_lake(lake), [BAD]).keys() == {BAD}
    manifest = folders[BAD] / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "members": 9}))
    ingest(spark, [folders[BAD]], lake)
    assert dict(asked(lake, "SELECT run, verdict FROM judged", 10).rows)[BAD] == "invalid"
    assert verdict_rows(spark, lake) != first


def test_promises_that_were_not_checked_are_rows_without_a_verdict(
    lake: str, folders: Mapping[str, Path], spark: Any
) -> None:
    sql = "SELECT promise, detail FROM verdicts WHERE run <> '7b' AND verdict IS NULL ORDER BY number"
    expected = verify_run(folders[GOOD]).unchecked
    assert asked(lake, sql, 100).rows == tuple((each.promise, each.why) for each in expected)


def test_slow_elections_come_with_their_states(lake: str, spark: Any) -> None:
    rows = asked(lake, "SELECT length_ms, states FROM slow_elections", 1000).rows
    assert [length for length, _ in rows] == sorted((length for length, _ in rows), reverse=True)
    assert all("CANVASS" in states or "INIT" in states for _, states in rows)
    assert all("CLOSED" not in states for _, states in rows)
    assert rows[0][0] > 0
