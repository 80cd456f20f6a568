"""`upheaval track-record`: known bugs of Aeron, each on versions that have it and on versions that do not.

It runs them, or takes their runs from a lake.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from upheaval.aeron_jars import SHA256, order_of, versions_of
from upheaval.cli.fault_commands import TRIES, TrackRecordOptions
from upheaval.cli.lake_options import in_pipeline
from upheaval.cli.new_folder import run_folder
from upheaval.cli.run import perform
from upheaval.cli.tables import table
from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.execution.known_bugs import KNOWN_BUGS, KnownBug, Tries, known_bugs, tries_of
from upheaval.records import write_atomically
from upheaval.runtime_names import DOCKER, PROCESS

Rows = Mapping[tuple[str, str], str]
"""The lines of a page, by issue and version."""
_COMMAND: Final = "upheaval track-record"
_ALL: Final = "all"
PINNED: Final = tuple(sorted(SHA256, key=order_of))
"""The versions that the harness has digests of, the oldest first."""
_WHERE: Final = {PROCESS: "as processes", DOCKER: "in containers"}
_HAS_IT: Final = {True: " (has it)", False: " (has it not)", None: ""}
_RESULTS: Final = "| issue | Aeron | runs | found | valid | rate, 95 % interval | broken promise | command |"
_PAGE: Final = """\
# Track record

Known bugs of released versions of Aeron Cluster, each on members of a version that has it and of versions that do not:

```sh
{command} --out FILE         # this page; rows of other issues and versions stay
{command} --versions all --tries 1 --out FILE        # on each version of the matrix
{command} --lake LAKE --out FILE         # the same of runs that a lake has
upheaval run aeron-2147 --runtime {runtime} --system aeron:1.51.0
```

*Found*: the promise is invalid, and the finding has the [signature](aeron.md#known-bugs) of the bug. *Valid*: every
promise is. Other runs were broken by something else, or could not be judged.
Clusters run {where} on one machine, by scenarios in `harness/upheaval/scenarios/known`. Issues are of `aeron-io/aeron`.

In how many runs each version showed each bug (`?`: a run was neither found nor valid, so it shows nothing of the bug):

{matrix}

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
    wanted = wanted_versions(options)
    todo = [(bug, version) for bug in known_bugs(options.issues) for version in wanted or bug.versions]
    if options.dir is not None:
        _require_free(options.dir, todo, tries)
    return show(options, [_run(bug, version, runtime, tries, options.dir) for bug, version in todo])


def wanted_versions(options: TrackRecordOptions) -> tuple[str, ...]:
    """The versions that are wanted, each once; empty for those of each bug. Raises `UsageError` for others."""
    if options.versions is None:
        return ()
    return PINNED if options.versions == _ALL else tuple(dict.fromkeys(versions_of(options.versions)))


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


def page(done: Sequence[Tries], rows_before: Rows, runtime: str = PROCESS) -> str:
    """docs/track-record.md: the rows of what was done, and those of other issues and versions as they were."""
    command = _COMMAND if runtime == PROCESS else f"{_COMMAND} --runtime {runtime}"
    rows = {**rows_before, **{(str(one.bug.issue), one.version): _line(one, command) for one in done}}
    bugs = [bug for bug in KNOWN_BUGS if any(issue == str(bug.issue) for issue, _ in rows)]
    versions = sorted({version for _, version in rows}, key=order_of)
    return _PAGE.format(
        command=command,
        where=_WHERE[runtime],
        runtime=runtime,
        matrix=_matrix(bugs, versions, rows),
        results=_RESULTS,
        rows="\n".join(
            rows[str(bug.issue), version] for bug in bugs for version in versions if (str(bug.issue), version) in rows
        ),
        bugs="\n".join(f"| {bug.label} | {bug.what} | {bug.fault} |" for bug in bugs),
        end=_END,
    )


def _matrix(bugs: Sequence[KnownBug], versions: Sequence[str], rows: Rows) -> str:
    """A line for each bug, a column for each version."""
    cells = [[_cell(rows.get((str(bug.issue), version))) for version in versions] for bug in bugs]
    lines = [["issue", *versions], ["---"] * (1 + len(versions))]
    lines += [[bug.label, *line] for bug, line in zip(bugs, cells, strict=True)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _cell(line: str | None) -> str:
    if line is None:
        return ""
    runs, caught, valid = map(int, line.split(" | ")[2:5])
    return f"{caught} of {runs}" + ("" if caught + valid == runs else " ?")


def _rows_of(path: Path, runtime: str) -> Rows:
    """The rows of a page; none of one that is not there. Raises `UsageError` for another runtime's."""
    known = {str(bug.issue) for bug in KNOWN_BUGS}
    rows: dict[tuple[str, str], str] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        issue, _, rest = line.removeprefix("| ").partition(" | ")
        if line.startswith("| ") and issue in known:
            if (f"--runtime {DOCKER}" in line) != (runtime == DOCKER):
                raise UsageError(f"{path} has rows of another runtime than {runtime}: write into another file")
            if line.count("|") != _RESULTS.count("|"):
                raise UsageError(f"{path} has a table of another version of upheaval: write into another file")
            rows[issue, rest.partition(" ")[0]] = line
    return rows


def _rest_of(path: Path) -> str:
    """What a page has after the part that is written here; empty for a page that is not there."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return text.partition(f"{_END}\n")[2]


def _require_free(folder: Path, todo: Sequence[tuple[KnownBug, str]], tries: int) -> None:
    """Raises `UsageError` for a run that is there already, before the first one."""
    for bug, version in todo:
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
        "has_it": done.bug.has_it(done.version),
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
    version = f"{done.version}{_HAS_IT[bug.has_it(done.version)]}"
    broken = dict.fromkeys(((bug.promise,) if done.caught else ()) + done.others)
    promises = ", ".join(f"`{promise}`" for promise in broken) or "none"
    option = "" if done.version in bug.versions else f" --versions {done.version}"
    shown = f"`{command} {bug.issue} --tries {done.tries}{option}`"
    rate = "{:.0%} to {:.0%}".format(*done.interval)
    cells = [bug.issue, version, done.tries, done.caught, done.valid, rate, promises, shown]
    return f"| {' | '.join(map(str, cells))} |"
