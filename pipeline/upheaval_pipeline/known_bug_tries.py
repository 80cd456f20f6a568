"""The track record of a lake: its runs of the scenarios of Aeron's known bugs, for the page of these."""

from collections.abc import Collection, Sequence
from typing import Final

from upheaval.checkers.verdict import Report
from upheaval.errors import UsageError
from upheaval.execution.known_bugs import KnownBug, Tries, tries_of
from upheaval.records import FieldError, jsonfields, parse_manifest
from upheaval.system import AERON
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.lake import RUNS, Lake
from upheaval_pipeline.verdicts import last_judged

_ADVICE: Final = "upheaval verify --lake LAKE --new"


def tries_in_lake(lake: Lake, bugs: Sequence[KnownBug], versions: Sequence[str], runtime: str) -> list[Tries]:
    """Of each bug and version of which the lake has runs. A run that was not or could not be judged is a try, too.

    Raises `UsageError` for a run with a damaged file.
    """
    if damage := lake.first_damage():
        raise UsageError(damage)
    titles = {bug.issue: bug.scenario(bug.bad).title for bug in bugs}
    ran = _runs_of(lake, titles.values(), runtime)
    judged = last_judged(lake, [run for runs in ran.values() for run in runs])
    done = []
    for bug in bugs:
        for version in versions:
            runs = ran.get((titles[bug.issue], f"{AERON}:{version}"), ())
            results = [judged.get(run, f"{run} was not judged: {_ADVICE}") for run in runs]
            if results:
                reports = [one for one in results if isinstance(one, Report)]
                failures = [str(one) for one in results if not isinstance(one, Report)]
                done.append(tries_of(bug, version, reports, failures))
    return done


def _runs_of(lake: Lake, titles: Collection[str], runtime: str) -> dict[tuple[str, str], list[str]]:
    """The runs of scenarios on a runtime, by title and system."""
    runs: dict[tuple[str, str], list[str]] = {}
    columns = arrow_schema("run string, runtime string, scenario string, manifest string")
    for row in lake.read(RUNS, columns, lake.runs(RUNS)):
        if row["scenario"] in titles and row["runtime"] == runtime:
            try:
                system = parse_manifest(jsonfields.parse_object(row["manifest"])).system
            except FieldError as error:
                raise UsageError(f"{lake.where}: the manifest of run {row['run']!r}: {error}") from None
            runs.setdefault((row["scenario"], system), []).append(row["run"])
    return runs
