"""`upheaval track-record`: runs known bugs of Aeron on a version that has each and on those that have not."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from upheaval.cli.fault_commands import TrackRecordOptions
from upheaval.cli.new_folder import run_folder
from upheaval.cli.run import perform
from upheaval.cli.tables import table
from upheaval.errors import EnvironmentFault, UnknownOutcome, UsageError
from upheaval.execution.known_bugs import KNOWN_BUGS, KnownBug, Tries, known_bugs, tries_of
from upheaval.records import write_atomically
from upheaval.runtime_names import DOCKER, PROCESS

_COMMAND: Final = "upheaval track-record"
_WHERE: Final = {PROCESS: "as processes", DOCKER: "in containers"}
_PAGE: Final = """\
# Track record

Known bugs of released versions of Aeron Cluster, each brought about by a scenario on members of a version that has it
and of versions that have not. `{command} --out FILE` runs what the table says and writes such a page; with
issues named it replaces their rows. Clusters have as many members as the scenario says, {where} on one machine. A
bug is *found* in a run whose promise is invalid; a run is *valid* when every promise is. Of the others another promise
was broken, or something could not be judged: they are in *runs* only.

| issue | what is wrong | what is done | Aeron | runs | found | valid | broken promise | command |
|---|---|---|---|---|---|---|---|---|
{rows}

The issues and pull requests are those of `aeron-io/aeron`. The scenarios lie in `harness/upheaval/scenarios/known`;
one of them by itself is `upheaval run aeron-ISSUE --runtime {runtime} --system aeron:VERSION`. A bug that is not found
in every run depends on which of two messages is first; then the rate is one of the machine, too.
"""


def track_record(options: TrackRecordOptions) -> int:
    """Run the bugs, print how often each was found, and write the page where that is asked for."""
    runtime = options.runtime or PROCESS
    rows_before = {} if options.out is None else _rows_of(options.out, runtime)
    if options.dir is not None:
        _require_free(options.dir, options.issues, options.tries)
    done = [
        _run(bug, version, runtime, options.tries, options.dir)
        for bug in known_bugs(options.issues)
        for version in bug.versions
    ]
    if options.json:
        print(json.dumps([_fields(tries) for tries in done], indent=2))
    else:
        print(table([["issue", "aeron", "runs", "found", "valid", "promise", "besides"], *map(_row, done)]))
    if options.out is not None:
        write_atomically(options.out, page(done, rows_before, runtime))
    return max(tries.verdict for tries in done).exit_status


def page(done: Sequence[Tries], rows_before: Mapping[int, Sequence[str]], runtime: str = PROCESS) -> str:
    """docs/track-record.md: the rows of what was done, and those of other issues as they were."""
    command = _COMMAND if runtime == PROCESS else f"{_COMMAND} --runtime {runtime}"
    made = {tries.bug.issue: [_line(one, command) for one in done if one.bug is tries.bug] for tries in done}
    rows = {**rows_before, **made}
    lines = [line for bug in KNOWN_BUGS for line in rows.get(bug.issue, ())]
    return _PAGE.format(command=command, where=_WHERE[runtime], runtime=runtime, rows="\n".join(lines))


def _rows_of(path: Path, runtime: str) -> Mapping[int, Sequence[str]]:
    """The rows of a page by their issues; none of one that is not there. Raises `UsageError` for another runtime's."""
    rows: dict[int, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        issue = line.removeprefix("| ").partition(" ")[0]
        if line.startswith("| ") and issue.isdecimal():
            if (f"--runtime {DOCKER}" in line) != (runtime == DOCKER):
                raise UsageError(f"{path} has rows of another runtime than {runtime}: write into another file")
            rows.setdefault(int(issue), []).append(line)
    return rows


def _require_free(folder: Path, issues: Sequence[int], tries: int) -> None:
    """Raises `UsageError` for a run that is there already, before the first one."""
    for bug in known_bugs(issues):
        for version in bug.versions:
            for number in range(1, tries + 1):
                place = _place(folder, bug, version, number)
                if place.is_dir() and any(place.iterdir()):
                    raise UsageError(f"{place} has something in it: name another --dir, or remove it")


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
    others = "; ".join((*(promise.sentence for promise in done.others), *done.unclear))
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
        "promise": done.bug.promise,
        "others": list(done.others),
        "unclear": list(done.unclear),
        "verdict": done.verdict.text,
    }


def _line(done: Tries, command: str) -> str:
    bug = done.bug
    version = f"{done.version} ({'has it' if done.version == bug.bad else 'has it not'})"
    promises = ", ".join(f"`{promise}`" for promise in ((bug.promise,) if done.caught else ()) + done.others) or "none"
    shown = f"`{command} {bug.issue} --tries {done.tries}`"
    cells = [bug.issue, bug.what, bug.fault, version, done.tries, done.caught, done.valid, promises, shown]
    return f"| {' | '.join(map(str, cells))} |"
