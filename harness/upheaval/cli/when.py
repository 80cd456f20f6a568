"""`upheaval when`: from which moment on no timing that was tried kept the promise that a simulated run broke."""

import json
from pathlib import Path
from typing import Final

from upheaval.campaign.again import as_recorded, seed_again
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.likelihood import (
    POINTS,
    TIMINGS,
    Played,
    PlayedText,
    Point,
    inevitable,
    likelihood,
    moments,
    play_again,
)
from upheaval.campaign.seed import SeedOrigin, seed_of_run
from upheaval.campaign.text_tries import TextOrigin
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Verdict
from upheaval.cli.fault_commands import WhenOptions
from upheaval.cli.progress import CAMPAIGN_LINES_S, ProgressLine, bar
from upheaval.cli.tables import table
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.execution.known_bugs import rate_interval
from upheaval.execution.run import read_origin
from upheaval.records import Json, RunFolder, owned_folder
from upheaval.report.explanation import explain
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes.simulated.world import START_NS
from upheaval_chaos.exit_status import CommandStatus
from upheaval_node.types import MS, S

_LENGTH: Final = 32
"""Of a bar that is full."""


def when(options: WhenOptions) -> int:
    """0 with a share for each point; unknown when the run does not break the same promise when it is run again."""
    played, digest = _played(options.run)
    if isinstance(played, SeedOrigin):
        again = seed_again(played)
    else:
        with owned_folder("campaign") as scratch:
            again = play_again(played, scratch)
    replay = as_recorded(again, digest, options.run)
    wanted = replay.fingerprints[0]
    if not wanted.is_broken:
        raise UnknownOutcome(f"{options.run} breaks no promise when it is run again: name a run that is invalid")
    broken_ns = _broken_ns(options.run, wanted) or START_NS + replay.run_ms * MS
    since_ns = moments(broken_ns, options.points or POINTS)
    timings = options.timings or TIMINGS
    line = ProgressLine(lines_every_s=CAMPAIGN_LINES_S)
    count = len(since_ns) * timings

    def progress(done: int) -> None:
        line.show(f"[{bar(done / count)}] {done} of {count} runs")

    try:
        points = list(likelihood(played, wanted, since_ns, timings, options.jobs, progress))
    finally:
        line.end()
    print(_as_json(wanted, broken_ns, points) if options.json else _as_text(wanted, broken_ns, points))
    return CommandStatus.VALID


def _played(run: Path) -> tuple[Played, str | None]:
    """What made the run, and the digest of its execution."""
    origin = seed_of_run(run)
    if origin is not None:
        return origin, origin.digest
    scenario, recorded = read_origin(run)
    if recorded.runtime != SIMULATED:
        raise UsageError(f"{run} ran on the {recorded.runtime} runtime: only simulated runs have timings to draw again")
    origin_of_text = TextOrigin(recorded.scenario, recorded.seed, recorded.planted, recorded.own)
    return PlayedText(origin_of_text, scenario.text), recorded.digest


def _broken_ns(folder: Path, wanted: Fingerprint) -> int | None:
    """The first moment at which the run shows the promise broken, if it shows one."""
    findings = [
        finding
        for finding in verify_run(folder).findings
        if finding.verdict is Verdict.INVALID and str(finding.promise) == wanted.promise
    ]
    run = RunFolder(folder)
    return min((ns for finding in findings if (ns := explain(run, finding).moment_ns) is not None), default=None)


def _as_json(wanted: Fingerprint, broken_ns: int, points: list[Point]) -> str:
    shares: list[Json] = [point.to_fields() for point in points]
    span = inevitable(points)
    fields: dict[str, Json] = {
        "promise": wanted.promise,
        "broken_seconds": round((broken_ns - START_NS) / S, 6),
        "points": shares,
        "inevitable": None
        if span is None
        else {
            "after_seconds": None if span[0] is None else round(span[0] / S, 6),
            "by_seconds": round(span[1] / S, 6),
            "avoid_at_most": round(_avoid_at_most(points), 4),
        },
    }
    return json.dumps(fields, indent=2)


def _as_text(wanted: Fingerprint, broken_ns: int, points: list[Point]) -> str:
    rows = [
        [f"{point.since_ns / S:.3f} s", f"{point.broken} of {point.timings}", "#" * round(_LENGTH * point.share)]
        for point in points
    ]
    return "\n".join(
        [
            f"{wanted.promise}, broken {(broken_ns - START_NS) / S:.3f} s into the run",
            table([["other timing from", "still broken", ""], *rows]),
            _conclusion(points),
        ]
    )


def _conclusion(points: list[Point]) -> str:
    span = inevitable(points)
    if span is None:
        return f"inevitable at no point: {points[-1].timings - points[-1].broken} timings avoid it even from the last"
    after_ns, by_ns = span
    timings, most = points[-1].timings, _avoid_at_most(points)
    tried = f"none of {timings} timings from each moment on avoided it (95 %: at most {most:.0%} do)"
    if after_ns is None:
        return f"inevitable from the start: {tried}"
    return f"inevitable between {after_ns / S:.3f} s and {by_ns / S:.3f} s: {tried}"


def _avoid_at_most(points: list[Point]) -> float:
    """The share of timings that may avoid the failure from a moment from which none of those tried does."""
    return 1 - rate_interval(points[-1].broken, points[-1].timings)[0]
