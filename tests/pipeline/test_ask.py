"""`upheaval ask`: what the answers say is what a hand-made run says, and the figures of a run; the page shows them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.browser import Browser
from support.built_runs import BuiltRun
from support.campaign_lines import some, written
from support.lakes import all_asked, asked
from support.pages import follow
from upheaval.cli import parsing
from upheaval.cli.main import main
from upheaval.cli.report import write_report
from upheaval.errors import UsageError
from upheaval.records import ControlRecord, Function, Manifest, Operation, Outcome, RunFolder
from upheaval.report import measure_run
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.cluster.election_states import ElectionState
from upheaval_pipeline.campaigns import ingest_campaigns
from upheaval_pipeline.commands import show_answers
from upheaval_pipeline.duck import DuckEngine, duck_engine
from upheaval_pipeline.engine import Answer
from upheaval_pipeline.ingest import ingest
from upheaval_pipeline.lake import open_lake
from upheaval_pipeline.query import open_views, shared_views
from upheaval_pipeline.question_page import page
from upheaval_pipeline.questions import QUESTIONS, SUMMARY, Heat, Question
from upheaval_pipeline.spark_engine import SparkEngine
from upheaval_pipeline.tables import LAKE_SCHEMAS
from upheaval_pipeline.views import VIEWS, View

MS = 1_000_000
NOTEBOOK = Path(__file__).parents[2] / "examples" / "lake" / "month.ipynb"
EVIL = "</script><script>complain()</script><b>"
ELECTION = [
    (1400, "INIT"),
    (1410, "CANVASS"),
    (1450, "NOMINATE"),
    (1500, "CANDIDATE_BALLOT"),
    (1600, "LEADER_LOG_REPLICATION"),
    (1630, "LEADER_REPLAY"),
    (1640, "LEADER_INIT"),
    (1650, "LEADER_READY"),
    (1700, "CLOSED"),
]
"""Of the member that leads after the first leader was killed, in ms."""
RETURN = [
    (3005, "CANVASS", 1000),
    (3010, "FOLLOWER_LOG_REPLICATION", 1000),
    (3020, "FOLLOWER_CATCHUP", 1500),
    (3260, "FOLLOWER_LOG_INIT", 2024),
    (3300, "CLOSED", 2024),
]
"""Of the killed one, with its positions: 1024 bytes in a quarter of a second."""
DRAWN = """Object.fromEntries(charts.map(each => {
  const colours = new Set(each.plot.series.map((_, i) => parseInt(each.colour(each.seriesColour(i)).slice(1), 16)));
  const { width, height } = each.chart.ctx.canvas;
  const { data } = each.chart.ctx.getImageData(0, 0, width, height);
  let pixels = 0;
  for (let i = 0; i < data.length; i += 4) pixels += colours.has((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  const bars = each.plot.lanes.filter((lane) => lane.values.some((value) => value !== 0)).length;
  return [each.place.id, bars ? pixels / each.plot.lanes.length : null];
}))"""
"""How many pixels of each plot have the colours of what it shows, for each row; null where all values are 0."""
Rows = Mapping[str, list[dict[str, Any]]]


def traced(ms: int, event: str, **fields: Any) -> str:
    return json.dumps({"ts": ms * MS, "component": "all", "event": event, **fields})


def answered(ms: int, latency_ms: int) -> Operation:
    return Operation(ms, 0, Function.WRITE, "k", ms, (ms - latency_ms) * MS, ms * MS, Outcome.OK, None, None)


def hand_made() -> BuiltRun:
    """Answers every 100 ms from 100 to 4000 ms, but none between 1000 and 1800: the leader is killed, and another
    one takes over, while a third is paused. Until the killed one is back, at 3000 ms, answers take twice as long.
    """
    term = {"leadership_term_id": 1, "leader_member_id": 1}
    states = [traced(ms, "election_state", state=state) for ms, state in ELECTION]
    back = [traced(ms, "election_state", state=state, append_position=place) for ms, state, place in RETURN]
    return BuiltRun(
        operations=[
            answered(ms, 20 if 1000 < ms <= 3000 else 10) for ms in range(100, 4001, 100) if not 1000 < ms < 1800
        ],
        traces=[
            [
                traced(50, "leadership_term", leadership_term_id=0, leader_member_id=0),
                traced(3000, "process-start"),
                traced(3006, "election_state", state="FOLLOWER_CATCHUP", append_position="x"),
                *back,
            ],
            [*states, traced(1700, "leadership_term", **term)],
            # It knows the leader before that one itself does; and it is killed within an election of its own.
            [traced(1690, "leadership_term", **term), traced(3500, "election_state", state="CANVASS")]
            + [traced(9000, "process-start"), traced(9001, "election_state", state="INIT")],
        ],
        manifest=Manifest("hand-made", "process", 3, "test", 1, version="1", created="2026-11-01"),
        faults=[
            FaultRecord("pause", "member-2", 900 * MS, 901 * MS, 1099 * MS, 1100 * MS, Proof(True, "seen")),
            FaultRecord("kill", "member-0", 1005 * MS, 1006 * MS, 2990 * MS, 3000 * MS, Proof(True, "seen")),
        ],
        converged=False,
    )


def write_halted(path: Path, version: str) -> None:
    """Answers every 100 ms but between 1000 and 2000: the cluster falls silent, is shut down at 1400, and started."""
    manifest = Manifest(f"halted-{version}", "docker", 3, "test", 1, version=version, created=f"2026-11-0{version}")
    latency = 10 * int(version)
    operations = [answered(ms, latency) for ms in range(100, 3001, 100) if not 1000 < ms < 2000]
    run = BuiltRun(operations=operations, manifest=manifest, converged=False).write(path)
    for what, begin, end in (("snapshot", 500, 520), ("shutdown", 1400, 1500), ("start", 1500, 1600)):
        run.add_control(ControlRecord(what, begin * MS, end * MS, 0, {"1": {"is": [what]}}, Proof(True, "seen"), 9))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """A hand-made run, two that operators halt, and a simulated one in which a leader is killed, which has its page."""
    folder = tmp_path_factory.mktemp("runs")
    hand_made().write(folder / "hand-made")
    for version in "12":
        write_halted(folder / f"halted-{version}", version)
    assert main(["run", "leader-killed", "--runtime", "simulated", "--dir", str(folder / "simulated")]) == 0
    write_report(folder / "simulated")
    return {name: RunFolder(folder / name) for name in ("hand-made", "halted-1", "halted-2", "simulated")}


@pytest.fixture(scope="module")
def lake(runs: dict[str, RunFolder], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The runs with their verdicts, and campaigns on two versions."""
    folder = tmp_path_factory.mktemp("ask")
    where = str(folder / "lake")
    ingest(None, [run.path for run in runs.values()], where)
    lines = [{**each, "detail": each["detail"] and EVIL} for each in some("2", 70, 56)]
    ingest_campaigns([written(folder / "1", some("1", 80, 48)), written(folder / "2", lines)], where)
    return where


@pytest.fixture(scope="module")
def answers(lake: str) -> list[Answer]:
    return all_asked(lake, [each.sql for each in QUESTIONS], 1000)


@pytest.fixture(scope="module")
def rows(answers: list[Answer]) -> Rows:
    """The answers by the names of the questions."""
    return {
        question.name: [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        for question, answer in zip(QUESTIONS, answers, strict=True)
    }


def summary_of(lake: str) -> Answer:
    summary: Answer = asked(lake, SUMMARY, 1)
    return summary


def test_the_head_of_a_page_says_what_it_is_about(lake: str) -> None:
    head = page("a/lake", Answer((), ((2, "2026-11-01", "2026-11-28T07:00", ["1", "2"], 0),), False), [])
    assert "lake a/lake · 2 runs · 2026-11-01 to 2026-11-28 · upheaval 1, 2<" in head
    assert "lake it · 4 runs · 2 campaigns · 20" in page("it", summary_of(lake), [])
    assert "lake it · 0 runs<" in page("it", Answer((), ((0, None, None, [], 0),), False), [])


def of(rows: list[dict[str, Any]], **wanted: Any) -> dict[str, Any]:
    """The only row with these values."""
    (found,) = (row for row in rows if wanted.items() <= row.items())
    return found


def test_availability_is_the_time_without_silences_under_each_fault_and_none(rows: Rows) -> None:
    killed = of(rows["availability"], runtime="process", fault="kill")
    assert (killed["runs"], killed["members"], killed["components"], killed["sync_level"]) == (1, 3, "together", 1)
    assert (killed["seconds"], killed["silent_s"]) == (pytest.approx(1.995), pytest.approx(0.795))
    assert killed["available"] == pytest.approx(1 - 795 / 1995)
    quiet = of(rows["availability"], runtime="process", fault="none")
    assert (quiet["seconds"], quiet["silent_s"]) == (pytest.approx(1.81), 0)
    # To a fault belongs all of a silence that it met.
    paused = of(rows["availability"], runtime="process", fault="pause")
    assert (paused["seconds"], paused["silent_s"]) == (pytest.approx(0.9), pytest.approx(0.8))


def test_overlapping_faults_leave_each_moment_once_to_none(lake: str, runs: dict[str, RunFolder]) -> None:
    sql = "SELECT run, sum(length_ms) FROM fault_times WHERE fault = 'none' GROUP BY run"
    quiet = dict(asked(lake, sql, 9).rows)
    for run in (runs["hand-made"], runs["simulated"]):
        first = min(o.invoke_ns for o in run.read_history())
        last = max(o.complete_ns or 0 for o in run.read_history())
        faults = [(fault.inject_begin_ns, fault.heal_end_ns or 0) for fault in run.read_faults()]
        outside = min(min(faults)) - first + last - max(end for _, end in faults)
        assert quiet[run.read_manifest().run_id] == pytest.approx(outside / MS)


def test_the_phases_of_a_failover_add_up_to_the_time_between_the_answers(rows: Rows, lake: str) -> None:
    for quantile in ("median", "p99"):
        phases = of(rows["failovers"], runtime="process", fault="kill", quantile=quantile)
        assert (phases["failovers"], phases["until_answer_ms"]) == (1, 800)
        names = ("silence", "canvass", "nomination", "ballot", "log", "ready", "answer")
        assert [phases[f"{name}_ms"] for name in names] == [400, 50, 50, 100, 40, 60, 100]
    simulated = of(rows["failovers"], runtime="simulated", quantile="median")
    assert sum(simulated[f"{name}_ms"] for name in names) == pytest.approx(simulated["until_answer_ms"])
    (whole,) = asked(
        lake, "SELECT until_answer_ms FROM failovers JOIN ran USING (run) WHERE runtime = 'simulated'", 9
    ).rows
    assert simulated["until_answer_ms"] == pytest.approx(whole[0])


def test_latency_is_compared_with_that_under_no_fault(rows: Rows) -> None:
    killed = of(rows["latency"], runtime="process", fault="kill")
    assert (killed["answers"], killed["p50_ms"], killed["p50_ratio"], killed["p99_ratio"]) == (13, 20, 2, 2)
    assert of(rows["latency"], runtime="process", fault="none")["p99_ratio"] == 1


def test_catch_ups_are_those_of_the_figures(rows: Rows, lake: str, runs: dict[str, RunFolder]) -> None:
    one = of(rows["catch-ups"], runtime="process")
    assert (one["member"], one["bytes"], one["length_ms"], one["bytes_per_s"]) == (0, 1024, 250, 4096)
    assert one["states"] == ["FOLLOWER_CATCHUP", "FOLLOWER_LOG_REPLICATION"]
    sql = "SELECT run, member, from_position, to_position, bytes_per_s FROM catch_ups ORDER BY run, begin_ns"
    told = asked(lake, sql, 99).rows
    expected = [
        (run.read_manifest().run_id, c.member, c.from_position, c.to_position, pytest.approx(c.rate))
        for run in runs.values()
        for c in measure_run(run).catch_ups
    ]
    assert sorted(told) == sorted(expected, key=lambda row: row[:2])
    assert len(expected) > 1


def test_elections_end_where_a_member_is_killed(rows: Rows, lake: str) -> None:
    sql = "SELECT state, length_ms, number FROM elections WHERE run = 'hand-made' AND member = 2 ORDER BY line"
    assert asked(lake, sql, 9).rows == (("CANVASS", None, 1), ("INIT", None, 2))
    slowest = rows["slow-elections"]
    assert [row["length_ms"] for row in slowest] == sorted((row["length_ms"] for row in slowest), reverse=True)
    assert of(slowest, runtime="process", member=1)["length_ms"] == 300
    assert len(slowest) <= 10


def test_coverage_has_a_cell_for_each_state_and_fault(rows: Rows) -> None:
    cells = {(row["state"], row["fault"]): (row["runs"], row["seeds"]) for row in rows["coverage"]}
    states, faults = ([*dict.fromkeys(each)] for each in zip(*cells, strict=True))
    assert states == [state.name for state in ElectionState]
    assert faults == ["kill", "kill-leader", "none", "pause"]
    assert len(cells) == len(states) * len(faults)
    assert cells["NOMINATE", "kill-leader"] == (0, 150)
    assert cells["CANDIDATE_BALLOT", "kill"] == (2, 0)
    assert cells["FOLLOWER_LOG_REPLICATION", "none"] == (1, 0)
    assert cells["FOLLOWER_LOG_REPLICATION", "kill"] == (0, 0)


def test_failures_with_other_numbers_are_alike(rows: Rows, runs: dict[str, RunFolder]) -> None:
    alike = of(rows["failures"], signature="member # voted twice")
    assert (alike["promise"], alike["runs"], alike["seeds"], alike["folders"]) == ("votes-kept", 0, 48, [])
    assert (alike["seed_numbers"], alike["first"], alike["last"]) == (
        [32, 33, 34],
        rows["campaigns"][0]["ingested"],
        alike["first"],
    )
    of_runs = [row for row in rows["failures"] if row["runs"]]
    assert of_runs
    accused = {str(runs[name].path) for name in ("hand-made", "halted-1", "halted-2")}
    assert {folder for row in of_runs for folder in row["folders"]} == accused
    assert not any(character.isdecimal() for row in of_runs for character in row["signature"])


def test_rates_come_with_their_intervals(rows: Rows) -> None:
    flaky = of(rows["flakes"], scenario="no scenario", runtime="process")
    assert (flaky["runs"], flaky["not_valid"], flaky["rate"]) == (1, 1, 1)
    assert flaky["lowest"] == pytest.approx(0.2065, abs=1e-4)
    worse = of(rows["regressions"], scenario="campaign")
    assert (worse["base_version"], worse["version"]) == ("1", "2")
    assert [worse[name] for name in ("difference", "lowest", "highest")] == [
        pytest.approx(0.2),
        pytest.approx(0.0524, abs=1e-4),
        pytest.approx(0.3339, abs=1e-4),
    ]


def test_each_question_is_a_table_on_the_terminal_or_rows(
    answers: list[Answer], capsys: pytest.CaptureFixture[str]
) -> None:
    show_answers(list(zip(QUESTIONS, answers, strict=True)), as_json=False)
    blocks = capsys.readouterr().out.removesuffix("\n\n").split("\n\n")
    for question, answer, block in zip(QUESTIONS, answers, blocks, strict=True):
        head, columns, *rest = block.splitlines()
        assert head == f"{question.name}: {question.sentence}"
        if question.name == "changes":  # two runs are too few
            assert (columns, rest) == (f"nothing: {question.without}", [])
            continue
        del rest[0]
        assert columns.split() == list(answer.columns)
        assert len(rest) == len(answer.rows) > 0
    show_answers(list(zip(QUESTIONS, answers, strict=True)), as_json=True)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["question"] for line in lines] == [
        question.name for question, answer in zip(QUESTIONS, answers, strict=True) for _ in answer.rows
    ]


def test_a_question_without_an_answer_says_what_the_lake_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = str(tmp_path / "lake")
    ingest_campaigns([written(tmp_path / "one", some("1", 3, 0))], lake)
    answers = list(zip(QUESTIONS, all_asked(lake, [each.sql for each in QUESTIONS], 9), strict=True))
    without = [question for question, answer in answers if not answer.rows]
    of_campaigns = ("coverage", "campaigns", "campaign-faults")
    assert [each.name for each in without] == [each.name for each in QUESTIONS if each.name not in of_campaigns]
    show_answers(answers, as_json=False)
    assert [line for line in capsys.readouterr().out.splitlines() if line.startswith("nothing: ")] == [
        f"nothing: {each.without}" for each in without
    ]
    text = page(lake, summary_of(lake), answers)
    assert "0 runs · 1 campaign<" in text
    assert text.count(">nothing: ") == len(without)
    assert text.partition("<script")[0].count('id="plot-') == 2


def test_a_lake_without_campaigns_says_so_in_a_line(runs: dict[str, RunFolder], tmp_path: Path) -> None:
    ingest(None, [runs["hand-made"].path], str(tmp_path / "lake"))
    wanted = [each for each in QUESTIONS if each.name in ("campaigns", "campaign-faults")]
    answers = list(zip(wanted, all_asked(str(tmp_path / "lake"), [each.sql for each in wanted], 9), strict=True))
    assert [answer.rows for _, answer in answers] == [(), ()]
    text = page("lake", summary_of(str(tmp_path / "lake")), answers)
    assert text.count(">nothing: no campaign: `upheaval ingest` takes the folders of `upheaval campaign --out`") == 2


def test_what_is_no_lake_and_no_question_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ask", "--lake", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err.startswith(f"upheaval: {tmp_path}/nowhere is not a lake: ")
    assert main(["ask", "--lake", "lake", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err == f"upheaval: {tmp_path} is a folder: the page is a file\n"
    nowhere = tmp_path / "nowhere"
    assert main(["ask", "--lake", str(tmp_path), "--out", str(nowhere / "page.html")]) == 2
    assert capsys.readouterr().err == f"upheaval: cannot write {nowhere / 'page.html'}: there is no folder {nowhere}\n"
    a_file = tmp_path / "file"
    a_file.touch()
    for command in (["ingest", str(tmp_path)], ["ask"]):
        assert main([*command, "--lake", str(a_file)]) == 2
        assert capsys.readouterr().err == f"upheaval: {a_file} is a file: a lake is a folder\n"
    with pytest.raises(SystemExit, match="2"):
        main(["ask", "failover", "--lake", "lake"])
    assert "did you mean 'failovers'?" in capsys.readouterr().err
    assert tuple(each.name for each in QUESTIONS) == parsing.QUESTIONS


def test_the_command_writes_the_page_of_the_questions_that_are_named(lake: str, tmp_path: Path) -> None:
    file = tmp_path / "month.html"
    command = [sys.executable, "-m", "upheaval.cli.main", "ask", "flakes", "--lake", lake, "--out", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{file}\n"
    assert file.read_text().count("<section ") == 1


def test_the_cells_of_the_notebook_run_in_order(lake: str) -> None:
    """In a process of its own, as a notebook runs."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] for cell in code)
    program = "\n".join("".join(cell["source"]) for cell in code)
    settings = {**os.environ, "LAKE": lake, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=settings, check=False)
    assert done.returncode == 0, done.stderr
    shown = [re.split(" {2,}", line.strip()) for line in done.stdout.splitlines()]
    assert ["upheaval", "1", "process", "1", "1", "1"] in shown, done.stdout
    assert {("silence_ms", "2"), ("kill", "2")} <= {(row[0], row[1]) for row in shown}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser


@pytest.mark.parametrize(("width", "dark"), [(1400, False), (1400, True), (400, False)])
def test_the_page_draws_each_answer_and_nothing_overflows(
    answers: list[Answer], lake: str, browser: Browser, tmp_path: Path, width: int, dark: bool
) -> None:
    (tmp_path / "month.html").write_text(page("lake", summary_of(lake), list(zip(QUESTIONS, answers, strict=True))))
    browser.complaints.clear()
    browser.open(tmp_path / "month.html", width=width, dark=dark)
    assert browser.value("document.documentElement.scrollWidth <= innerWidth")
    tables = browser.value("[...document.querySelectorAll('.answers')].map(each => each.tBodies[0].rows.length)")
    assert tables == [len(answer.rows) for answer in answers if answer.rows]
    drawn = browser.value(DRAWN)
    assert {re.sub(r"-\d+$", "", place) for place in drawn} == {
        f"plot-{each.name}" for each in QUESTIONS if not isinstance(each.plot, Heat) and each.name != "changes"
    }
    few = {place: pixels for place, pixels in drawn.items() if pixels is not None and pixels <= 8}
    assert few == {}
    assert drawn["plot-availability"] is not None
    shades = browser.value(
        "new Set([...document.querySelectorAll('.heat td.n')].map(each => getComputedStyle(each).backgroundColor)).size"
    )
    assert shades > 2
    assert browser.complaints == []


@pytest.mark.parametrize("what", [*VIEWS, *QUESTIONS], ids=lambda one: one.name)
def test_both_engines_give_the_same_rows(what: View | Question, on_spark: SparkEngine, on_duckdb: DuckEngine) -> None:
    rows = on_duckdb.answer(what.sql, 1_000_000)
    expected = on_spark.answer(what.sql, 1_000_000)
    assert rows.columns == expected.columns
    assert in_any_order(rows) == in_any_order(expected)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda one: one.name)
def test_answers_do_not_depend_on_what_is_asked_beside_them(
    question: Question, answers: list[Answer], on_duckdb: DuckEngine
) -> None:
    """Views that several questions read are computed once, for all of them."""
    together = answers[QUESTIONS.index(question)]
    assert in_any_order(together) == in_any_order(on_duckdb.answer(question.sql, 1000))


def test_views_that_are_read_twice_are_shared() -> None:
    by_name = {question.name: question.sql for question in QUESTIONS}
    assert shared_views([by_name["flakes"]]) == []
    assert shared_views([by_name["flakes"], by_name["trend"]]) == ["ran", "answers", "judged", "labelled"]
    assert set(shared_views(by_name.values())) > {"answers", "silences", "fault_times"}


@pytest.mark.parametrize("is_failing", [False, True])
def test_spark_holds_shared_rows_for_as_long_as_queries_run(is_failing: bool, lake: str, spark: Any) -> None:
    engine, shared = SparkEngine(spark), ["judged", "flakes"]
    open_views(engine, open_lake(lake))
    spark.catalog.clearCache()
    with suppress(UsageError), engine.sharing(shared):
        assert all(spark.catalog.isCached(view) for view in shared)
        engine.answer("SELECT nothing FROM judged" if is_failing else "SELECT run FROM judged", 10)
    assert not any(spark.catalog.isCached(view) for view in shared)


@pytest.mark.parametrize("is_failing", [False, True])
def test_duckdb_computes_shared_views_again_afterwards(is_failing: bool, lake: str) -> None:
    with duck_engine() as engine:
        open_views(engine, open_lake(lake))
        for _ in range(2):
            with suppress(UsageError), engine.sharing(["judged", "flakes"]):
                assert _kind_of(engine, "flakes") == "BASE TABLE"
                engine.answer("SELECT nothing FROM flakes" if is_failing else "SELECT scenario FROM flakes", 10)
            assert _kind_of(engine, "flakes") == "VIEW"


def _kind_of(engine: DuckEngine, name: str) -> object:
    sql = f"SELECT table_type FROM information_schema.tables WHERE table_name = '{name}'"
    ((kind,),) = engine.answer(sql, 2).rows
    return "BASE TABLE" if kind == "LOCAL TEMPORARY" else kind


def in_any_order(answer: Answer) -> list[str]:
    """Its rows as text, numbers to ten digits: sums of floats depend on their order."""
    return sorted(json.dumps(row, default=str) for row in _rounded(answer.rows))


def _rounded(value: Any) -> Any:
    if isinstance(value, float | Decimal):
        return f"{float(value):.10g}"
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [*map(_rounded, value)] if isinstance(value, list | tuple) else value


@pytest.fixture(scope="module")
def on_spark(lake: str, spark: Any) -> Iterator[SparkEngine]:
    """Each table and view is computed once: most views are over others."""
    engine = SparkEngine(spark)
    open_views(engine, open_lake(lake))
    for name in (*LAKE_SCHEMAS, "seeds", "verdicts", *(view.name for view in VIEWS)):
        spark.catalog.cacheTable(name)
    yield engine
    spark.catalog.clearCache()


@pytest.fixture(scope="module")
def on_duckdb(lake: str) -> Iterator[DuckEngine]:
    with duck_engine() as engine:
        open_views(engine, open_lake(lake))
        yield engine


def test_the_page_links_runs_and_follows_light_and_paper(
    answers: list[Answer], lake: str, runs: dict[str, RunFolder], browser: Browser, tmp_path: Path
) -> None:
    (tmp_path / "month.html").write_text(page("lake", summary_of(lake), list(zip(QUESTIONS, answers, strict=True))))
    browser.complaints.clear()
    browser.open(tmp_path / "month.html", dark=True)
    links = set(browser.value("[...document.querySelectorAll('a')].map(each => each.href)"))
    without_page = {runs[name].path.as_uri() for name in ("hand-made", "halted-1", "halted-2")}
    assert links == {*without_page, (runs["simulated"].path / "report.html").as_uri()}
    browser.value(
        "window.onPaper_ = []; addEventListener('beforeprint', () => onPaper_.push(charts[0].chart.width,"
        "charts[0].colour('card'), document.querySelectorAll('details:not([open])').length))"
    )
    browser.call("Page.printToPDF")
    width, card, closed = browser.value("onPaper_")
    assert (card, closed) == ("#fff", 0)
    assert width < 720
    browser.settle()
    assert browser.value("charts[0].colour('card')") != "#fff"
    assert browser.value("charts[0].chart.width") > 720
    assert browser.complaints == []


@pytest.mark.heavy
@pytest.mark.nightly
def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    printed = follow("docs/tutorials/month-of-runs.md", tmp_path, frozenset({"install"}))
    assert (tmp_path / "month.html").is_file()
    assert "until_answer_ms" in "\n".join(printed)
