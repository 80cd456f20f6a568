"""`upheaval report` and `upheaval measure`: the page of a run, and its figures as a table. Neither needs Spark."""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path

from upheaval.checkers.judge import verify_run
from upheaval.cli.answers import answer
from upheaval.cli.judge_commands import ReportOptions, RunsOptions
from upheaval.cli.lake_options import from_one_place, in_pipeline
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.execution.run import RESULT_FILE, read_result
from upheaval.records import RunFolder, write_atomically
from upheaval.report import Figures, duration, measure_run
from upheaval.report.maintainers import FILE_NAME as MAINTAINERS_FILE, maintainers_page
from upheaval.runtimes import cluster_file
from upheaval.ui.run_page import made_by, page_of_run

FILE_NAME = "report.html"


def write_report(run: Path, output: Path | None = None) -> Path:
    """Write the page of a run, by default into its folder; return where it is."""
    path = output or RunFolder(run).path / FILE_NAME
    require_file(path)
    write_atomically(path, page_of_run(run))
    return path


def require_file(page: Path) -> None:
    """Raises `UsageError` where a page cannot be written, before anything is computed for it."""
    if page.is_dir():
        raise UsageError(f"{page} is a folder: the page is a file")
    if not page.absolute().parent.is_dir():
        raise UsageError(f"cannot write {page}: there is no folder {page.parent}")


def write_for_maintainers(run: Path, output: Path | None = None) -> Path:
    """Write the page of a run's findings for the maintainers of the system; return where it is."""
    path = output or run / MAINTAINERS_FILE
    require_file(path)
    again = made_by(run).command or f"upheaval verify {shlex.quote(str(run.absolute()))}"
    launcher, jvm, _ = cluster_file.start_of(run)
    own = read_result(run).own if (run / RESULT_FILE).is_file() else None
    names = ("service", "user", "model", "schema")
    options = {} if own is None else {name: getattr(own, name) for name in names}
    write_atomically(path, maintainers_page(RunFolder(run), verify_run(run), again, launcher, jvm, options))
    return path


def report(options: ReportOptions) -> int:
    """Write the page of a run and print its path."""
    write = write_for_maintainers if options.for_maintainers else write_report
    path = str(write(options.run, options.out).absolute())
    answer(path, {"page": path}, as_json=options.json)
    return 0


def measure(options: RunsOptions) -> int:
    """Print the figures of run folders, or on Spark of whatever the options name."""
    options = from_one_place(options)
    if options.engine == "spark":
        return in_pipeline("measure_on_spark", options)
    if options.lake is not None:
        raise UsageError("Spark computes the figures of a lake: add --engine spark")
    return show_figures({str(run): measure_run(RunFolder(run)) for run in options.runs}, as_json=options.json)


def show_figures(measured: Mapping[str, Figures | UsageError], *, as_json: bool) -> int:
    """Print the figures of runs, by their folders.

    Raises `UsageError` with why any could not be measured, after the figures of all others.
    """
    figures_of = {run: figures for run, figures in measured.items() if isinstance(figures, Figures)}
    if as_json:
        print(json.dumps({run: figures.to_fields() for run, figures in figures_of.items()}, indent=2))
    else:
        for run, figures in figures_of.items():
            _print(run, figures)
    refused = [str(outcome) for outcome in measured.values() if isinstance(outcome, UsageError)]
    if refused:
        raise UsageError("; ".join(refused))
    return 0


def _print(run: str, figures: Figures) -> None:
    print(run)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in figures.counts.items())
    print(f"operations: {counts}; {figures.rate:,.0f} answers a second")
    if figures.latency:
        p50, p99, longest = (duration(value) for value in figures.latency)
        print(f"latency: p50 {p50}, p99 {p99}, longest {longest}")
    for begin, end in figures.gaps:
        print(f"no answer for {duration(end - begin)}, from {duration(begin)} on")
    for caught in figures.catch_ups:
        size, length = caught.to_position - caught.from_position, caught.end - caught.begin
        print(
            f"member {caught.member} caught up {size:,} bytes of the log in {duration(length)}, "
            f"from {duration(caught.begin)} on: {caught.rate:,.0f} bytes a second"
        )
    for snapshot in figures.snapshots:
        print(f"snapshot at {duration(snapshot.begin)}: on every member after {duration(snapshot.length_ns)}")
    if figures.timers:
        late = figures.timers
        print(f"{late.count} timers fired late by: p50 {late.p50:g} ms, p99 {late.p99:g} ms, most {late.most:g} ms")
    if figures.faults:
        rows = [["fault", "at", "new leader after", "first answer after", "p50/p99 before", "during", "after"]]
        for f in figures.faults:
            times = [duration(ns) if ns is not None else "-" for ns in (f.begin, f.new_leader_ns, f.first_answer_ns)]
            pairs = ["/".join(map(duration, pair)) if pair else "-" for pair in (f.before, f.during, f.after)]
            rows.append([f"{f.what} {f.where}", *times, *pairs])
        print(table(rows))
