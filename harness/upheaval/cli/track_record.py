"""`upheaval track-record`: known bugs of Aeron, each on a version that has it and on versions that do not.

It runs them, or takes their runs from a lake.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from upheaval.cli.fault_commands import TRIES, TrackRecordOptions
from upheaval.cli.lake_options import in_pipeline
from upheaval.cli.new_folder import run_folder
from upheaval.cli.run import perform
from upheaval.cli.tables import table
from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.execution.known_bugs import KNOWN_BUGS, KnownBug, Tries, known_bugs, tries_of
from upheaval.records import write_atomically
from upheaval.runtime_names import DOCKER, PROCESS

_COMMAND: Final = "upheaval track-record"
_WHERE: Final = {PROCESS: "as processes", DOCKER: "in containers"}
_RESULTS: Final = "| issue | Aeron | runs | found | valid | rate, 95 % interval | broken promise | command |"
_PAGE: Final = """\
# Track record

Known bugs of released versions of Aeron Cluster, each on members of a version that has it and of versions that do not:

```sh
{command} --out FILE         # this page; with issues named it replaces their rows
{command} --lake LAKE --out FILE         # the same of runs that a lake has
upheaval run aeron-2147 --runtime {runtime} --system aeron:1.51.0
```

*Found*: the promise is invalid, and the finding has the [signature](aeron.md#known-bugs) of the bug. *Valid*: every
promise is. Other runs were broken by something else, or could not be judged.
Clusters run {where} on one machine, by scenarios in `harness/upheaval/scenarios/known`. Issues are of `aeron-io/aeron`.

{results}
|---|---|---|---|---|---|---|---|
{rows}

| issue | what is wrong | what is done |
|---|---|---|
{bugs}

{end}
"""
_END: Final = "A bug that is not found in every run depends on the order of two messages, and so on the machine."
"""The last line that is written here: what follows it in a page stays as it is."""


def track_record(options: TrackRecordOptions) -> int:
    """Run the bugs, or take their runs from a lake; print how often each was found, and write the page where that is
    asked for.
    """
    if options.lake is not None:
        if options.dir is not None or options.tries is not None:
            raise UsageError("--dir and --tries are of new runs, and --lake takes those that it has")
        return in_pipeline("track_record_of_lake", options)
    runtime, tries = options.runtime or PROCESS, options.tries or TRIES
    if options.out is not None:
        _rows_of(options.out, runtime)  # what would be lost is refused before the first run
    if options.dir is not None:
        _require_free(options.dir, options.issues, tries)
    done = [
        _run(bug, version, runtime, tries, options.dir)
        for bug in known_bugs(options.issues)
        for version in bug.versions
    ]
    return show(options, done)


def show(options: TrackRecordOptions, done: Sequence[Tries]) -> int:
    """Print what was done, and write the page where that is asked for; the exit status is that of the worst verdict."""
    runtime = options.runtime or PROCESS
    text = None if options.out is None else page(done, _rows_of(options.out, runtime), runtime) + _rest_of(options.out)
    if options.json:
        print(json.dumps([_fields(tries) for tries in done], indent=2))
    else:
        print(table([["issue", "aeron", "runs", "found", "valid", "promise", "besides"], *map(_row, done)]))
    if options.out is not None and text is not None:
        write_atomically(options.out, text)
    return max(tries.verdict for tries in done).exit_status


def page(done: Sequence[Tries], rows_before: Mapping[str, Sequence[str]], runtime: str = PROCESS) -> str:
    """docs/track-record.md: the rows of what was done, and those of other issues as they were."""
    command = _COMMAND if runtime == PROCESS else f"{_COMMAND} --runtime {runtime}"
    made = {str(tries.bug.issue): [_line(one, command) for one in done if one.bug is tries.bug] for tries in done}
    rows = {**rows_before, **made}
    lines = [line for bug in KNOWN_BUGS for line in rows.get(str(bug.issue), ())]
    bugs = "\n".join(f"| {bug.label} | {bug.what} | {bug.fault} |" for bug in KNOWN_BUGS if str(bug.issue) in rows)
    return _PAGE.format(
        command=command,
        where=_WHERE[runtime],
        runtime=runtime,
        results=_RESULTS,
        rows="\n".join(lines),
        bugs=bugs,
        end=_END,
    )


def _rows_of(path: Path, runtime: str) -> Mapping[str, Sequence[str]]:
    """The rows of a page by their issues; none of one that is not there. Raises `UsageError` for another runtime's."""
    known = {str(bug.issue) for bug in KNOWN_BUGS}
    rows: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        issue = line.removeprefix("| ").partition(" ")[0]
        if line.startswith("| ") and issue in known:
            if (f"--runtime {DOCKER}" in line) != (runtime == DOCKER):
                raise UsageError(f"{path} has rows of another runtime than {runtime}: write into another file")
            if line.count("|") != _RESULTS.count("|"):
                raise UsageError(f"{path} has a table of another version of upheaval: write into another file")
            rows.setdefault(issue, []).append(line)
    return rows


def _rest_of(path: Path) -> str:
    """What a page has after the part that is written here; empty for a page that is not there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text.partition(f"{_END}\n")[2]


def _require_free(folder: Path, issues: Sequence[str], tries: int) -> None:
    """Raises `UsageError` for a run that is there already, before the first one."""
    for bug in known_bugs(issues):
        for version in bug.versions:
            for number in range(1, tries + 1):
                place = _place(folder, bug, version, number)
                if place.is_dir() and any(place.iterdir()):
                    raise UsageError(f"{place} is not empty: name another --dir, or remove it")


def _place(folder: Path, bug: KnownBug, version: str, number: int) -> Path:
    return folder / f"{bug.issue}-{version}-{number}"


def _run(bug: KnownBug, version: str, runtime: str, tries: int, folder: Path | None) -> Tries:
    reports, failures = [], []
    for number in range(1, tries + 1):
        place = None if folder is None else _place(folder, bug, version, number)
        scenario = bug.scenario(version)
        try:
            with run_folder(place, f"{scenario.name}-{version}") as path:
                reports.append(perform(scenario, runtime, number, path).report)
        except (EnvironmentFault, UnknownOutcome) as error:
            # What the other runs show is not lost for it.
            failures.append(str(error))
    return tries_of(bug, version, reports, failures)


def _row(done: Tries) -> list[str]:
    strange = (f"{promise.sentence}, by no known bug" for promise in done.strange)
    known = (promise.sentence for promise in done.others if promise not in done.strange)
    others = "; ".join((*known, *strange, *done.unclear))
    numbers = map(str, (done.tries, done.caught, done.valid))
    return [str(done.bug.issue), done.version, *numbers, done.bug.promise.sentence, others]


def _fields(done: Tries) -> dict[str, object]:
    return {
        "issue": done.bug.issue,
        "version": done.version,
        "has_it": done.version == done.bug.bad,
        "tries": done.tries,
        "caught": done.caught,
        "valid": done.valid,
        "interval": list(done.interval),
        "promise": done.bug.promise,
        "others": list(done.others),
        "strange": list(done.strange),
        "unclear": list(done.unclear),
        "verdict": done.verdict.text,
    }


def _line(done: Tries, command: str) -> str:
    bug = done.bug
    version = f"{done.version} ({'has it' if done.version == bug.bad else 'has it not'})"
    broken = dict.fromkeys(((bug.promise,) if done.caught else ()) + done.others)
    promises = ", ".join(f"`{promise}`" for promise in broken) or "none"
    shown = f"`{command} {bug.issue} --tries {done.tries}`"
    rate = "{:.0%} to {:.0%}".format(*done.interval)
    cells = [bug.issue, version, done.tries, done.caught, done.valid, rate, promises, shown]
    return f"| {' | '.join(map(str, cells))} |"
