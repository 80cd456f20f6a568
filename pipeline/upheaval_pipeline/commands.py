"""What `verify`, `measure`, `ingest`, `query` and `ask` do on Spark. Whether Spark is there is found out
before anything of it is imported.
"""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from upheaval.cli import report, verify
from upheaval.cli.judge_commands import AskOptions, IngestOptions, QueryOptions, RunsOptions
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.records import RunFolder, write_atomically
from upheaval_pipeline.session import LOCAL, require_spark, session

if TYPE_CHECKING:
    from upheaval_pipeline.lake import Lake
    from upheaval_pipeline.query import Answer
    from upheaval_pipeline.questions import Question

ROWS_MAX = 1000
"""Of the answer to a question."""


def verify_on_spark(options: RunsOptions) -> int:
    """Judge run folders, or runs of a lake, which keeps the verdicts."""
    require_spark()
    from upheaval_pipeline import verify as judge
    from upheaval_pipeline.lake import open_lake

    for run in options.runs:
        RunFolder(run).read_manifest()
    with session(options.master or LOCAL) as spark:
        if options.lake is None:
            judged = judge.verify(spark, options.runs)
        else:
            lake = open_lake(options.lake)
            judged = judge.verify_lake(spark, lake, _runs(lake, options))
    return verify.show_judged(judged, as_list=options.are_several, as_json=options.json)


def measure_on_spark(options: RunsOptions) -> int:
    """Figures of run folders, or of runs of a lake."""
    require_spark()
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.measure import measure, measure_lake

    for run in options.runs:
        RunFolder(run).read_manifest()
    with session(options.master or LOCAL) as spark:
        if options.lake is None:
            names = [str(run) for run in options.runs]
            measured = list(measure(spark, options.runs))
        else:
            lake = open_lake(options.lake)
            names = _runs(lake, options)
            measured = list(measure_lake(spark, lake, names))
    return report.show_figures(dict(zip(names, measured, strict=True)), as_json=options.json)


def ingest(options: IngestOptions) -> int:
    """Write run folders and campaigns to a lake."""
    require_spark()
    from upheaval_pipeline.campaigns import ingest_campaigns, seeds_file
    from upheaval_pipeline.ingest import ingest, require_different_runs
    from upheaval_pipeline.lake import require_place

    require_place(options.lake)
    files = {path: seeds_file(path) for path in options.paths}
    folders = [path for path, file in files.items() if file is None]
    campaigns = [file for file in files.values() if file is not None]
    require_different_runs(folders)
    with session(options.master or LOCAL) as spark:
        written = ingest(spark, folders, options.lake, _say) if folders else {}
        written |= ingest_campaigns(spark, campaigns, options.lake, _say) if campaigns else {}
    if options.json:
        print(json.dumps(written, indent=2))
    else:
        names = list(dict.fromkeys(name for rows in written.values() for name in rows))
        print(
            table([["run", *names], *([run, *(str(rows.get(n, "")) for n in names)] for run, rows in written.items())])
        )
    return 0


def _say(text: str) -> None:
    print(f"upheaval: {text}", file=sys.stderr)


def query(options: QueryOptions) -> int:
    """Print what a query over a lake gives, or what can be asked."""
    if options.list == (options.sql is not None):
        raise UsageError("name a query, or --list, and not both")
    require_spark()
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.query import ask, shown_tables

    lake = open_lake(options.lake)
    with session(options.master or LOCAL) as spark:
        if options.sql is None:
            print(table([["name", "a row is", "columns"], *map(list, shown_tables(spark, lake))]))
            return 0
        answer = ask(spark, lake, options.sql, options.limit)
    if options.json:
        _print_json(answer)
    else:
        print(_as_table(answer))
    if answer.is_cut:
        _say(f"there are more rows than {options.limit}: --limit N prints more")
    return 0


def ask(options: AskOptions) -> int:
    """Print the answers to questions about the runs of a lake, or write them as a page."""
    require_spark()
    from upheaval_pipeline.lake import open_lake
    from upheaval_pipeline.query import ask_all
    from upheaval_pipeline.question_page import page
    from upheaval_pipeline.questions import QUESTIONS

    if options.out is not None:
        report.require_file(options.out)
    lake = open_lake(options.lake)
    wanted = [question for question in QUESTIONS if not options.questions or question.name in options.questions]
    with session(options.master or LOCAL) as spark:
        results = ask_all(spark, lake, [question.sql for question in wanted], ROWS_MAX)
    answers = list(zip(wanted, results, strict=True))
    if options.out is None:
        show_answers(answers, as_json=options.json)
    else:
        write_atomically(options.out, page(options.lake, answers))
        print(options.out.absolute())
    return 0


def show_answers(answers: Sequence[tuple["Question", "Answer"]], *, as_json: bool) -> None:
    """Print the answer to each question, or in one line that there is none."""
    for question, answer in answers:
        if as_json:
            _print_json(answer, question=question.name)
        else:
            print(f"{question.name}: {question.sentence}")
            print(_as_table(answer) if answer.rows else f"nothing: {question.without}", end="\n\n")
        if answer.is_cut:
            _say(f"there are more rows than {ROWS_MAX} of {question.name}: `upheaval query` prints more")


def _print_json(answer: "Answer", **more: str) -> None:
    """An object a row."""
    for row in answer.rows:
        print(json.dumps({**more, **dict(zip(answer.columns, row, strict=True))}, default=str))


def _as_table(answer: "Answer") -> str:
    from upheaval_pipeline.query import shown

    return table([list(answer.columns), *([shown(value) for value in row] for row in answer.rows)])


def _runs(lake: "Lake", options: RunsOptions) -> list[str]:
    runs = [options.run_id] if options.run_id is not None else lake.runs("runs")
    if not runs:
        raise UsageError(f"{options.lake} has no runs: ingest some")
    return runs
