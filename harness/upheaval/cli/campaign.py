"""`upheaval campaign`: many seeds of the simulated runtime, failures with the line that runs them again."""

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from upheaval.campaign.campaign import Summary, parse_seeds, run_campaign
from upheaval.campaign.seed import Fate, FaultCounts, SeedOutcome, run_seed
from upheaval.checkers.promises import Promise
from upheaval.cli.progress import BAR_LENGTH, ProgressLine
from upheaval.errors import UsageError
from upheaval_chaos.planted.bug import bug_named

WIDTH = 40


def campaign(options: argparse.Namespace) -> int:
    """Run the seeds; exit status 1 when one of them failed."""
    seeds = parse_seeds(options.seeds)
    if not 1 <= options.workers <= 64:
        raise UsageError("--workers takes 1 to 64")
    planted = None if options.planted is None else bug_named(options.planted).name
    if options.dir is not None:
        return _one(seeds, options.dir, planted, has_out=options.out is not None)
    line, begin = ProgressLine(), time.monotonic()

    def show(outcome: SeedOutcome, summary: Summary) -> None:
        if not outcome.is_valid:
            line.end()
            print(_failure(outcome, planted), file=sys.stderr, flush=True)
        line.show(_progress(summary, len(seeds), time.monotonic() - begin))

    try:
        summary = run_campaign(
            seeds,
            workers=options.workers,
            planted=planted,
            out=options.out,
            until=lambda outcome: planted is not None and not outcome.is_valid,
            show=show,
        )
    finally:
        line.end()
    print(json.dumps(summary.to_fields(), indent=2) if options.json else as_text(summary))
    return 1 if summary.failed else 0


def _one(seeds: range, folder: Path, planted: str | None, *, has_out: bool) -> int:
    """One seed whose run folder stays."""
    if len(seeds) != 1:
        raise UsageError("--dir keeps the run of one seed: use --seeds N..N")
    if has_out:
        raise UsageError("--dir keeps the run of one seed and writes no lines: remove --out")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is there already and not an empty folder: give another --dir")
    outcome = run_seed(seeds[0], planted, folder)
    print(json.dumps(outcome.to_fields(), indent=2))
    if not outcome.is_valid:
        print(_failure(outcome, planted), file=sys.stderr)
    return 0 if outcome.is_valid else 1


def _failure(outcome: SeedOutcome, planted: str | None) -> str:
    seed = outcome.swarm.seed
    bug = "" if planted is None else f" --planted {planted}"
    again = f"upheaval campaign --seeds {seed}..{seed}{bug} --dir runs/seed-{seed}"
    return f"seed {seed}: {outcome.verdict}, {Promise(outcome.promise).sentence}: {outcome.detail}\n  again: {again}"


def _progress(summary: Summary, seeds: int, elapsed_s: float) -> str:
    bar = "#" * round(summary.seeds / seeds * BAR_LENGTH)
    a_minute = summary.seeds * 60 / max(elapsed_s, 0.001)
    return (
        f"[{bar:.<{BAR_LENGTH}}] {summary.seeds} of {seeds} seeds, {len(summary.inconclusive)} inconclusive, "
        f"{len(summary.failed)} failed, {a_minute:.0f} a minute"
    )


def as_text(summary: Summary) -> str:
    """Figures and histograms for people."""
    speed = summary.seconds / max(summary.processor_seconds, 0.001)
    lines = [
        f"{summary.seeds} seeds: {summary.counted} count, {len(summary.inconclusive)} inconclusive, "
        f"{len(summary.failed)} failed",
        f"{summary.seconds:.0f} simulated seconds, {speed:.1f} a second of processor time; "
        f"{summary.operations} acknowledged operations, {summary.snapshots} snapshots asked for, "
        f"{summary.endings} clusters ended and started again",
    ]
    if summary.inconclusive:
        lines.append("inconclusive: " + " ".join(map(str, summary.inconclusive)))
    lines += ["", "faults", *_fault_rows(summary.faults)]
    lines += ["", "variations (seeds)", *_fault_rows(summary.variations)]
    lines += ["", "members", *_histogram(summary.members)]
    lines += ["", "sync level", *_histogram(summary.sync_levels)]
    lines += ["", "service", *_histogram(summary.services)]
    lines += ["", "elections after the first one", *_histogram(summary.elections)]
    lines += ["", "moves of elections", *_histogram(summary.moves)]
    lines += ["", f"moves that nobody made: {', '.join(summary.untaken_moves) or 'none'}"]
    return "\n".join(lines)


def _fault_rows(faults: FaultCounts) -> list[str]:
    rows = [*sorted(faults.items()), ("all", sum(faults.values(), Counter[Fate]()))]
    widest = max(len(kind) for kind, _ in rows)
    head = f"  {'':<{widest}}" + "".join(f"{fate:>9}" for fate in Fate)
    return [head, *(f"  {kind:<{widest}}" + "".join(f"{counts[fate]:>9}" for fate in Fate) for kind, counts in rows)]


def _histogram(counts: Mapping[str, int] | Mapping[int, int]) -> list[str]:
    if not counts:
        return ["  none"]
    rows = [(str(name), count) for name, count in sorted(counts.items())]
    widest, most = max(len(name) for name, _ in rows), max(count for _, count in rows)
    return [f"  {name:<{widest}} {count:>8} {'#' * round(count / most * WIDTH)}" for name, count in rows]
