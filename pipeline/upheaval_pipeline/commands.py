"""What `verify`, `measure`, `ingest`, `query` and `ask` do with a lake, or on Spark. They find out whether an engine is
there before they import anything of it.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from upheaval.cli import parsing, report, track_record, ui, verify
from upheaval.cli.cluster_commands import UiOptions
from upheaval.cli.fault_commands import CampaignOptions, TrackRecordOptions
from upheaval.cli.judge_commands import AskOptions, QueryOptions, RunsOptions, VerifyOptions
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.execution.known_bugs import known_bugs
from upheaval.records import RunFolder, write_atomically
from upheaval.runtime_names import PROCESS
from upheaval_chaos.exit_status import CommandStatus
from upheaval_pipeline.engines import (
    DUCKDB,
    SPARK,
    chosen,
    chosen_for,
    engine_of,
    require_lake_reader,
)
from upheaval_pipeline.session import require_spark
from upheaval_pipeline.shown_session import shown_session

if TYPE_CHECKING:
    from upheaval_pipeline.engine import Answer
    from upheaval_pipeline.lake import Lake
    from upheaval_pipeline.questions import Question
    from upheaval_pipeline.whole import Judged

ROWS_MAX = 1000
"""Of the answer to a question."""
CSV, JSON, PARQUET = parsing.TABLE_FORMATS


def verify_on_spark(options: RunsOptions) -> int:
    """Judge run folders in Spark's tasks."""
    require_spark(options.master)
    for run in options.runs:
        RunFolder(run).read_manifest()
    judged = _judge_on_spark(options.master, options.runs)
    return verify.show_judged(judged, as_list=options.are_several, as_json=options.json)


def verify_lake(options: VerifyOptions) -> int:
    """The verdicts that a lake keeps; what has none is judged here or by Spark, as wanted."""
    require_lake_reader()
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.verdicts import without_verdict
    from upheaval_pipeline.verify import verify_lake
    from upheaval_pipeline.whole import judge_each

    def judge(folders: Sequence[Path]) -> list["Judged"]:
        if options.engine == SPARK:
            return _judge_on_spark(options.master, folders)
        return judge_each(None, folders)

    lake = open_lake(options.lake or "")
    runs = _runs(lake, options)
    if options.new:
        runs = without_verdict(lake, runs)
        if not runs:
            _say(f"this judge has judged all runs of {options.lake}")
            return 0
    judged = verify_lake(judge, lake, runs)
    return verify.show_judged(judged, as_list=options.are_several, as_json=options.json)


def _judge_on_spark(master: str | None, folders: Sequence[Path]) -> list["Judged"]:
    from upheaval_pipeline.whole import judge_each

    with shown_session(master) as shown:
        return judge_each(shown.spark, folders)


def measure_on_spark(options: RunsOptions) -> int:
    """Figures of run folders, or of runs of a lake."""
    require_spark(options.master)
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.measure import measure, measure_lake

    for run in options.runs:
        RunFolder(run).read_manifest()
    lake = None if options.lake is None else open_lake(options.lake)
    names = [str(run) for run in options.runs] if lake is None else _runs(lake, options)
    with shown_session(options.master) as shown:
        spark = shown.spark
        measured = list(measure(spark, options.runs) if lake is None else measure_lake(spark, lake, names))
    return report.show_figures(dict(zip(names, measured, strict=True)), as_json=options.json)


def _say(text: str) -> None:
    print(f"upheaval: {text}", file=sys.stderr, flush=True)


def campaign_on_spark(options: CampaignOptions) -> int:
    """Run the seeds of a campaign in Spark's tasks."""
    require_spark(options.master)
    require_lake_reader()
    from upheaval_pipeline.campaign_command import campaign_on_spark

    return campaign_on_spark(options)


def track_record_of_lake(options: TrackRecordOptions) -> int:
    """Print how often runs of a lake found known bugs of Aeron, and write the page of these where that is asked for."""
    require_lake_reader()
    from upheaval_pipeline.known_bug_tries import tries_in_lake
    from upheaval_pipeline.lake import open_lake

    runtime = options.runtime or PROCESS
    versions = track_record.wanted_versions(options) or track_record.PINNED
    done = tries_in_lake(open_lake(options.lake or ""), known_bugs(options.issues), versions, runtime)
    if not done:
        raise UsageError(f"{options.lake} has no runs of these bugs with --runtime {runtime}")
    return track_record.show(options, done)


def query(options: QueryOptions) -> int:
    """Print what a query over a lake gives, or what can be asked."""
    if options.list == (options.sql is not None):
        raise UsageError("name a query, or --list, and not both")
    require_lake_reader()
    _require_output(options)
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.query import ask, shown_tables

    lake = open_lake(options.lake)
    queries = [] if options.sql is None else [options.sql]
    with engine_of(_chosen(lake, queries, options), options.master) as engine:
        if options.sql is None:
            print(table([["name", "a row is", "columns"], *map(list, shown_tables(engine, lake))]))
            return 0
        answer = ask(engine, lake, options.sql, options.limit)
    if options.format is not None:
        _export(answer, options.format, options.out)
    elif options.json:
        _export(answer, JSON)
    else:
        print(_as_table(answer))
    if answer.is_cut:
        _say(f"there are more rows than {options.limit}: --limit N prints more")
    return 0


def _chosen(lake: "Lake", queries: Sequence[str], options: QueryOptions | AskOptions) -> str:
    """The engine, printed when the command chose it."""
    choice = chosen_for(lake, queries, options.engine, options.master)
    if choice.why:
        _say(f"engine: {choice.engine}, because {choice.why}")
    return choice.engine


def ui_of_lake(options: UiOptions) -> int:
    """The pages of the runs of a lake, until it is interrupted."""
    require_lake_reader()
    chosen(DUCKDB, None)
    from upheaval_pipeline.lake_place import LakePlace

    return ui.serve(options, LakePlace(options.lake or ""))


def ask(options: AskOptions) -> int:
    """Print the answers to questions about the runs of a lake, or write them as a page or for other programs.

    Raises `UsageError` for a value of `--between` that no run has.
    """
    require_lake_reader()
    _require_output(options)
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.query import Asked, ask_all
    from upheaval_pipeline.question_page import page
    from upheaval_pipeline.questions import QUESTIONS, SUMMARY, UNJUDGED, UNKNOWN_VALUES
    from upheaval_pipeline.verdicts import cannot_be_judged

    names = {*options.questions, *options.fail_if} if options.questions or options.fail_if else parsing.QUESTIONS
    wanted = [question for question in QUESTIONS if question.name in names]
    if options.format not in (None, JSON) and len(wanted) > 1:
        raise UsageError(f"answers have different columns: name one question for --format {options.format}")
    lake = open_lake(options.lake)
    asked = Asked(options.slo, options.between)
    grounds = {one.name: one.grounds for one in wanted if one.grounds is not None and one.name in options.fail_if}
    asked_for = [*(one.sql for one in wanted), *(one.sql for one in grounds.values())]
    queries = [UNKNOWN_VALUES, SUMMARY, UNJUDGED, *asked_for]
    with engine_of(_chosen(lake, queries, options), options.master) as engine:
        unknown, summary, unjudged, *results = ask_all(engine, lake, queries, ROWS_MAX, asked)
    if unknown.rows:
        values = ", ".join(f"{label}={value}" for label, value in unknown.rows)
        raise UsageError(f"no run of {options.lake} has the label {values} (--between)")
    answers = list(zip(wanted, results, strict=False))
    known_from = dict(zip(grounds, results[len(wanted) :], strict=True))
    if options.format is not None:
        _export_all(answers, options.format, options.out)
    elif options.out is None:
        show_answers(answers, as_json=options.json)
    else:
        write_atomically(options.out, page(options.lake, summary, answers))
        print(options.out.absolute())
    gates = [(question, answer) for question, answer in answers if question.name in options.fail_if]
    alarms = [_is_alarming(*gate) for gate in gates]
    ((number,),) = unjudged.rows
    if number != 0:
        _say(cannot_be_judged(number, options.lake))
    if any(alarms) or (number != 0 and "failures" in options.fail_if):
        return int(CommandStatus.BROKEN)
    unknown_gates = [question for question, answer in gates if not known_from.get(question.name, answer).rows]
    for question in unknown_gates:
        _say(f"{question.name}: unknown: {(question.grounds or question).without} (--fail-if)")
    return int(CommandStatus.UNKNOWN if unknown_gates or (gates and number) else CommandStatus.VALID)


def _require_output(options: QueryOptions | AskOptions) -> None:
    """Raises `UsageError` for what cannot be written, before anything is asked."""
    if options.format == PARQUET and options.out is None:
        raise UsageError("Parquet is not text: add --out FILE")
    if isinstance(options, QueryOptions) and options.out is not None and options.format is None:
        raise UsageError(f"--out writes rows: add --format {', '.join(parsing.TABLE_FORMATS)}")
    if options.json and (options.out is not None or options.format not in (None, JSON)):
        raise UsageError("--json prints objects: leave it out, or --format and --out")
    if options.out is not None:
        report.require_file(options.out)


def _is_alarming(question: "Question", answer: "Answer") -> bool:
    """Whether an answer is bad news; says how much of it."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    number = sum(question.alarm is not None and question.alarm(row) for row in rows)
    if number:
        _say(f"{question.name}: {number} of {len(rows)} rows are bad news (--fail-if)")
    return number > 0


def show_answers(answers: Sequence[tuple["Question", "Answer"]], *, as_json: bool) -> None:
    """Print the answer to each question, or in one line that there is none."""
    if as_json:
        _export_all(answers, JSON, None)
        return
    for question, answer in answers:
        print(f"{question.name}: {question.sentence}")
        print(_as_table(answer) if answer.rows else f"nothing: {question.without}", end="\n\n")
        _say_cut(question, answer)


def _export_all(answers: Sequence[tuple["Question", "Answer"]], form: str, out: Path | None) -> None:
    """The rows of one answer, or of all as objects that name their question."""
    from upheaval_pipeline.exports import as_json

    if form == JSON:
        lines = "".join(as_json(answer, question=question.name) for question, answer in answers)
        sys.stdout.write(lines) if out is None else write_atomically(out, lines)
    else:
        _export(answers[0][1], form, out)
    for question, answer in answers:
        _say_cut(question, answer)


def _export(answer: "Answer", form: str, out: Path | None = None) -> None:
    from upheaval_pipeline.exports import as_csv, as_json, write_parquet

    if form == PARQUET and out is not None:
        write_parquet(answer, out)
        return
    text = as_csv(answer) if form == CSV else as_json(answer)
    sys.stdout.write(text) if out is None else write_atomically(out, text)


def _say_cut(question: "Question", answer: "Answer") -> None:
    if answer.is_cut:
        _say(f"there are more rows than {ROWS_MAX} of {question.name}: `upheaval query` prints more")


def _as_table(answer: "Answer") -> str:
    from upheaval_pipeline.query import shown

    return table([list(answer.columns), *([shown(value) for value in row] for row in answer.rows)])


def _runs(lake: "Lake", options: RunsOptions) -> list[str]:
    runs = [options.run_id] if options.run_id is not None else lake.runs("runs")
    if not runs:
        raise UsageError(f"{options.lake} has no runs: ingest some")
    return runs
