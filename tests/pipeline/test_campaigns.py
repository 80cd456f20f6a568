"""Campaigns in a lake: their seeds are rows, with views of outcomes, coverage, flakes, and what got worse."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from support.built_runs import good_run
from support.campaign_lines import line, some, written
from support.lakes import asked, rewritten, table_files
from support.run_rows import engine_with, rows_of
from upheaval.campaign.campaign import line_of
from upheaval.campaign.findability import rate_excluded
from upheaval.campaign.live import LiveCampaign, LiveOutcome
from upheaval.campaign.seed import SeedOutcome
from upheaval.campaign.seed_lines import Fate
from upheaval.campaign.swarm import draw_swarm
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.scenario import OwnCode
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.campaigns import ingest_campaigns, seeds_file
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.questions import QUESTIONS
from upheaval_pipeline.tables import SEEDS
from upheaval_pipeline.upkeep import older_than


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Campaigns on two versions, with the numbers of an example of Newcombe's."""
    folder = tmp_path_factory.mktemp("campaigns")
    files = [written(folder / "base", some("1", 80, 48)), written(folder / "new", some("2", 70, 56))]
    (folder / "new" / "seed-69-smallest").mkdir()
    (folder / "new" / "seed-69-smallest" / "run.scenario").write_text("title The smallest\n")
    counts = ingest_campaigns(files, str(folder / "lake"))
    assert sorted(each["seeds"] for each in counts.values()) == [70, 80]
    return str(folder / "lake")


def test_outcomes_are_counted_with_what_was_proved(lake: str) -> None:
    sql = "SELECT version, verdict, promise, seeds, operations, seconds, proved_faults FROM seed_outcomes ORDER BY 1, 2"
    assert asked(lake, sql, 9).rows == (
        ("1", "invalid", "votes-kept", 48, 48 * 600, 48 * 70.5, 48 * 3),
        ("1", "valid", "", 32, 32 * 600, 32 * 70.5, 32 * 3),
        ("2", "invalid", "votes-kept", 56, 56 * 600, 56 * 70.5, 56 * 3),
        ("2", "valid", "", 14, 14 * 600, 14 * 70.5, 14 * 3),
    )
    assert asked(lake, "SELECT seed, smallest FROM seeds WHERE smallest IS NOT NULL", 9).rows == (
        (69, "title The smallest\n"),
    )


def test_what_got_worse_comes_with_newcombes_interval(lake: str) -> None:
    sql = "SELECT base_version, version, base_runs, runs, difference, lowest, highest FROM regressions WHERE lowest > 0"
    ((base, version, base_runs, runs, *interval),) = asked(lake, sql, 9).rows
    assert (base, version, base_runs, runs) == ("1", "2", 80, 70)
    assert interval == [pytest.approx(0.2), pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4)]
    assert len(asked(lake, "SELECT * FROM regressions", 9).rows) == 1


NIGHT = "2020-11-02T03:00:00+00:00"


def test_campaigns_on_versions_of_equal_numbers_follow_each_other_by_their_first_ingest(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for version, bad, night in (("1.52.0@9a2b3c", 0, NIGHT), ("1.52.0@1a2b3c", 40, None)):
        lines = [{**one, "runtime": "docker", "system": f"aeron:{version}"} for one in some(version, 40, bad)]
        ingest_campaigns([written(tmp_path / version, lines)], lake)
        if night:
            rewritten(tmp_path / "lake", "seeds", ingested=night)
    (row,) = answered(lake, "regressions")
    assert (row["base_system"], row["system"]) == ("aeron:1.52.0@9a2b3c", "aeron:1.52.0@1a2b3c")
    assert row["outcome"] == "worse"


@pytest.mark.parametrize("ingested", [NIGHT, None])
def test_a_campaign_that_is_read_again_keeps_the_time_of_its_first_ingest(ingested: str | None, tmp_path: Path) -> None:
    """Where another version had no such column, the batch has the time."""
    lake = str(tmp_path / "lake")
    file = written(tmp_path / "one", some("1", 5, 2))
    (run,) = ingest_campaigns([file], lake)
    rewritten(tmp_path / "lake", "seeds", ingested=ingested, batch="1604286000000000-00000000")
    (tmp_path / "one" / "seed-3").mkdir()
    (tmp_path / "one" / "seed-3" / "seed.json").write_text("{}")
    ingest_campaigns([file, written(tmp_path / "other", some("2", 6, 0))], lake)
    assert asked(lake, "SELECT schedule FROM seeds WHERE seed = 3 AND version = '1'", 9).rows == (("{}",),)
    assert asked(lake, "SELECT first, last FROM signatures", 9).rows == ((NIGHT, NIGHT),)
    other, one = answered(lake, "campaigns")
    assert (one["ingested"], one["seeds"], other["seeds"]) == (NIGHT, 5, 6)
    assert older_than(Lake(lake), 1) == [run]


def answered(lake: str, name: str) -> list[dict[str, Any]]:
    """The rows of the answer to a question."""
    (sql,) = (question.sql for question in QUESTIONS if question.name == name)
    answer = asked(lake, sql, 99)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_a_campaign_has_the_figures_of_its_summary(tmp_path: Path) -> None:
    lines = [line(1, "1"), line(2, "1"), {**line(3, "1"), "inconclusive": True, "processor_seconds": 6.0}]
    lines += [line(4, "1", Verdict.INVALID), line(5, "1", Verdict.UNKNOWN), line(6, "1", Verdict.TIMEOUT)]
    lake = str(tmp_path / "lake")
    ingest_campaigns([written(tmp_path / "all", lines), written(tmp_path / "none counts", lines[2:])], lake)
    whole, bad = sorted(answered(lake, "campaigns"), key=lambda row: -row["seeds"])
    names = ("seeds", "counted", "inconclusive", "unknown", "invalid", "operations", "inconclusive_share")
    assert [whole[name] for name in names] == [6, 2, 1, 2, 1, 6 * 600, pytest.approx(1 / 6)]
    assert whole["processor_s_a_seed"] == pytest.approx(1)
    assert whole["excluded_rate"] == pytest.approx(rate_excluded(2)) == pytest.approx(0.9)
    assert (bad["counted"], bad["excluded_rate"]) == (0, rate_excluded(0))
    assert datetime.fromisoformat(whole["ingested"]) <= datetime.now(UTC)


def test_the_last_campaign_is_first() -> None:
    nights = [f"2026-11-{night:02}T05:00:00+00:00" for night in range(1, 31)]
    seeds = [{**line(seed, "1"), "run": str(-seed), "ingested": night} for seed, night in enumerate(nights)]
    with engine_with([]) as engine:
        columns = arrow_schema(SEEDS).names
        of_lines = [{**seed, "fault_counts": None, "moves": None, "tape": None} for seed in seeds]
        engine.add_rows("seeds", SEEDS, [tuple(seed.get(name) for name in columns) for seed in of_lines])
        assert [row["ingested"] for row in rows_of(engine, "campaigns")] == nights[::-1]


def test_the_kind_of_fault_that_is_proved_least_is_first(tmp_path: Path) -> None:
    fates = {"cut": (2, 2, 0, 0), "kill": (4, 1, 1, 2), "pause": (0, 0, 0, 0)}
    counts = {kind: dict(zip(Fate, numbers, strict=True)) for kind, numbers in fates.items()}
    lines = [{**line(seed, "1"), "fault_counts": counts} for seed in range(3)]
    lake = str(tmp_path / "lake")
    ingest_campaigns([written(tmp_path / "1", lines[:2]), written(tmp_path / "2", lines[2:])], lake)
    kill, cut = answered(lake, "campaign-faults")
    assert [kill[name] for name in ("fault", "campaigns", "seeds", *Fate)] == ["kill", 2, 3, 12, 3, 3, 6]
    assert (kill["proved_share"], cut["fault"], cut["proved_share"]) == (0.25, "cut", 1)


def test_campaigns_of_different_services_are_not_compared(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    bank = [{**one, "own_service": "bank.service:Bank"} for one in some("1", 40, 0)]
    of_before = {"own_service": None, "service": "shop.service:Shop"}
    shop = [{**one, **of_before} for one in some("1", 40, 20) + some("2", 40, 40)]
    drawn = [{**one, "service": ("map", "list")[n % 2]} for n, one in enumerate(some("1", 40, 0) + some("2", 40, 40))]
    files = [written(tmp_path / str(n), lines) for n, lines in enumerate((bank, shop[:40], shop[40:], drawn))]
    ingest_campaigns(files, lake)
    assert asked(lake, "SELECT * FROM seed_flakes", 9).rows == ()
    worse = asked(lake, "SELECT scenario, base_runs, runs FROM regressions WHERE lowest > 0 ORDER BY 1", 9).rows
    assert worse == (("campaign", 40, 40), ("campaign shop.service:Shop", 40, 40))
    sql = "SELECT service, sum(seeds) FROM seed_outcomes GROUP BY service ORDER BY 1"
    assert asked(lake, sql, 9).rows == (("", 80), ("bank.service:Bank", 40), ("shop.service:Shop", 80))
    live = LiveCampaign("process", "upheaval", tmp_path, own=OwnCode("bank.service:Bank"))
    assert live.line(LiveOutcome(3, Report("", ()), 12.5, 99, {}))["own_service"] == "bank.service:Bank"


def test_two_nights_of_the_same_seeds_are_two_campaigns(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    for night, seconds in enumerate((0.0204001, 0.0204002)):
        outcome = SeedOutcome(draw_swarm(1), processor_seconds=seconds)
        ingest_campaigns([written(tmp_path / str(night), [line_of(outcome)])], lake)
    assert asked(lake, "SELECT count(DISTINCT run) FROM seeds", 9).rows == ((2,),)
    live = [LiveOutcome(3, Report("", ()), seconds, 99, {}).to_fields() for seconds in (12.51, 12.52)]
    assert live[0] != live[1]


def test_coverage_is_of_moves_and_faults_that_were_proved(lake: str) -> None:
    sql = "SELECT from_state, to_state, fault, sum(seeds), sum(moves) FROM coverage GROUP BY ALL"
    assert asked(lake, sql, 9).rows == (("CANVASS", "NOMINATE", "kill-leader", 150, 750),)


def test_the_choices_of_a_tape_are_rows(lake: str) -> None:
    sql = "SELECT value, count(*) FROM tapes WHERE span = '' AND label = 'members' GROUP BY value"
    assert asked(lake, sql, 9).rows == ((str(draw_swarm(1).members), 150),)
    sql = """SELECT number, value FROM tapes
        JOIN (SELECT run, seed FROM seeds WHERE smallest IS NOT NULL) USING (run, seed)
        WHERE span = 'fault' AND label = 'kind' ORDER BY number"""
    assert asked(lake, sql, 99).rows == tuple(enumerate(planned.kind for planned in draw_swarm(1).faults))


def test_a_campaign_that_has_grown_replaces_what_was_there_and_seeds_that_differ_are_flakes(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    file = written(tmp_path / "one", [line(7, "1")])
    ingest_campaigns([file], lake)
    said: list[str] = []
    ingest_campaigns([file], lake, said.append)
    assert said == ["1 of 1 campaigns are in the lake already"]
    with file.open("a") as stream:
        stream.write(json.dumps(line(8, "1")) + "\nnothing\n" + '{"seed":9}\n')
    (counts,) = ingest_campaigns([file], lake).values()
    assert counts == {"seeds": 2, "rejects": 2}
    assert asked(lake, "SELECT seed FROM seeds ORDER BY 1", 9).rows == ((7,), (8,))
    reasons = [reason for (reason,) in asked(lake, "SELECT reason FROM rejects ORDER BY 1", 9).rows]
    assert reasons == [f"{file}: no seed: no `seed` or `verdict`", f"{file}: no seed: nothing"]
    again = written(tmp_path / "again", [line(7, "1", Verdict.INVALID)])
    ingest_campaigns([again], lake)
    flakes = asked(lake, "SELECT seed, runs, not_valid, rate, verdicts FROM seed_flakes", 9).rows
    assert flakes == ((7, 2, 1, 0.5, ["invalid", "valid"]),)
    with pytest.raises(UsageError, match="are the same campaign"):
        ingest_campaigns([file, written(tmp_path / "copy", [line(7, "1")])], lake)


@pytest.mark.parametrize(
    "words",
    [
        '{"seed":"7","verdict":"valid"}',
        '{"seed":99999999999999999999,"verdict":"valid"}',
        '{"seed":7,"verdict":"valid","seconds":"long"}',
        '{"seed":7,"verdict":"valid","faults":"kill"}',
        '{"seed":7,"verdict":"valid","moves":{"A>B":1.5}}',
        '{"seed":7,"verdict":"valid","seconds":1' + "0" * 400 + "}",
        '{"seed":7,"verdict":"valid","seconds":true}',
        "[" * 100_000,
        "[7]",
        "7",
        '{"seed":7,',
        "\u2028 \ufffd",
    ],
)
def test_a_line_that_is_no_seed_is_a_reject_and_leaves_the_others(words: str, tmp_path: Path) -> None:
    file = written(tmp_path / "one", [line(8, "1")])
    with file.open("a", encoding="utf-8") as stream:
        stream.write(f"{words}\n\n" + json.dumps({**line(9, "1"), "detail": "\ud800", "tape": {"a": "\udc00"}}) + "\n")
    lake = str(tmp_path / "lake")
    assert list(ingest_campaigns([file], lake).values()) == [{"seeds": 2, "rejects": 1}]
    assert asked(lake, "SELECT reason FROM rejects", 9).rows == ((f"{file}: no seed: {words[:80]}",),)
    rows = asked(lake, "SELECT seed, detail, tape FROM seeds WHERE seed = 9", 9).rows
    assert rows == ((9, "\\ud800", '{"a":"\\udc00"}'),)


def test_live_campaigns_are_seeds_too_and_a_damaged_file_is_named(tmp_path: Path) -> None:
    lake = str(tmp_path / "lake")
    campaign = LiveCampaign("process", "upheaval", tmp_path)
    outcome = LiveOutcome(3, Report("", ()), 12.5, 99, {"pause": Counter({Fate.PLANNED: 1, Fate.PROVED: 1})})
    ingest_campaigns([written(tmp_path / "live", [campaign.line(outcome)])], lake)
    sql = "SELECT seed, runtime, system, verdict, seconds, operations, fault_counts['pause'].proved FROM seeds"
    assert asked(lake, sql, 9).rows == ((3, "process", "upheaval", "unknown", 12.5, 99, 1),)
    findings = (
        Finding(Promise.LOGS_EQUAL, Verdict.UNKNOWN, "a log is short"),
        Finding(Promise.LINEARIZABLE, Verdict.INVALID, "2 answers\n  differ"),
    )
    failed = replace(outcome, seed=7, report=Report("", findings), folder="/runs/seed-7")
    ingest_campaigns([written(tmp_path / "failed", [campaign.line(failed)])], lake)
    (failure,) = (row for row in answered(lake, "failures") if row["verdict"] == "invalid")
    names = ("promise", "signature", "runs", "seeds", "seed_numbers", "folders")
    assert [failure[name] for name in names] == ["linearizable", "# answers differ", 0, 1, [7], ["/runs/seed-7"]]
    assert answered(lake, "campaigns")[0]["processor_s_a_seed"] is None
    file = table_files(tmp_path / "lake", "seeds")[0]
    file.write_bytes(b"")
    with pytest.raises(UsageError, match=file.name):
        asked(lake, "SELECT * FROM seeds", 9)


def test_a_file_without_a_line_is_no_campaign(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    with pytest.raises(UsageError, match="is not a campaign: it has no line"):
        ingest_campaigns([tmp_path / "empty.jsonl"], str(tmp_path / "lake"))
    assert seeds_file(tmp_path) is None


def test_a_file_without_a_seed_is_no_campaign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = good_run(40).write(tmp_path / "run")
    for file in (run.history_file, run.manifest_file):
        assert main(["ingest", str(file), "--lake", str(tmp_path / "lake"), "--engine", "python"]) == 2
        assert capsys.readouterr().err == f"upheaval: {file} is not a campaign: none of its lines is a seed\n"
    assert not (tmp_path / "lake").exists()
