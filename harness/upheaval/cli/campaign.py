"""`upheaval campaign`: many seeds, mostly of the simulated runtime, failures with the line that runs them again."""

import json
import shlex
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from upheaval.campaign.campaign import Runner, Summary, run_campaign
from upheaval.campaign.canary import run_canary
from upheaval.campaign.findability import CHANCE_MAX, rate_excluded
from upheaval.campaign.goals.table import GOALS
from upheaval.campaign.kept import alone_in
from upheaval.campaign.memory import FailedSeeds
from upheaval.campaign.searches import UNIFORM
from upheaval.campaign.seed import SeedOrigin, SeedOutcome, finding_line, keep_seed
from upheaval.campaign.seeds import parse_seeds
from upheaval.campaign.shrink import Budget
from upheaval.campaign.shrink_seed import try_of
from upheaval.checkers.promises import promise_of
from upheaval.checkers.verdict import Verdict, worst
from upheaval.cli.campaign_rows import fault_rows, gap_rows
from upheaval.cli.fault_commands import CampaignOptions
from upheaval.cli.lake_options import in_pipeline
from upheaval.cli.live_campaign import labelled_seeds, live_campaign
from upheaval.cli.new_folder import run_folder, runs_folder
from upheaval.cli.output import note
from upheaval.cli.progress import BAR_LENGTH, CAMPAIGN_LINES_S, ProgressLine
from upheaval.cli.screen import screen_of
from upheaval.cli.settings import read_settings
from upheaval.cli.shrink import report_search, shrink_into, smallest_of
from upheaval.cli.verdict_text import evidence_block, failed_seed
from upheaval.errors import UsageError
from upheaval.load.own import load_maker, own_code
from upheaval.records.labels import labelled
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes import cluster_file
from upheaval.system import CLUSTER_OF_THREE, ClusterSpec, require_rules
from upheaval_chaos.planted.catalogue import bug_named
from upheaval_node.cluster.rules import OWN

WIDTH = 40
SPARK = "spark"
GOALS_SHOWN = 20
"""How many of the goals that were not reached have their names in the text."""


def campaign(options: CampaignOptions) -> int:
    """Run the seeds; the exit status is that of the worst verdict."""
    if options.engine == SPARK:
        return in_pipeline("campaign_on_spark", options)
    if options.master is not None or options.lake is not None:
        raise UsageError("--master and --lake are for campaigns on Spark: add --engine spark")
    return campaign_by(None, options)


def campaign_by(runner: Runner | None, options: CampaignOptions, then: Callable[[], None] = lambda: None) -> int:
    """Like `campaign`; a runner takes the place of worker processes, for simulated seeds. `then` is called before
    another campaign may write to `--out`.
    """
    seeds = parse_seeds(options.seeds)
    settings = read_settings()
    options = settings.completed(options)
    runtime = options.runtime or settings.runtime or SIMULATED
    if runtime != SIMULATED and options.compatibility != OWN:
        raise UsageError(f"--compatibility is for campaigns of the simulated runtime: use --runtime {SIMULATED}")
    if runtime != SIMULATED and options.search != UNIFORM:
        raise UsageError(f"--search is for campaigns of the simulated runtime: use --runtime {SIMULATED}")
    if runner is not None and (runtime != SIMULATED or options.dir is not None or options.workers != 1):
        raise UsageError("--engine spark runs many simulated seeds: leave out --runtime, --dir and --workers")
    if runtime != SIMULATED:
        return live_campaign(options, runtime, seeds)
    if options.system is not None:
        cluster_file.check(replace(CLUSTER_OF_THREE, system=options.system), SIMULATED)
    of_java = replace(CLUSTER_OF_THREE, launcher=options.launcher or "", jvm=options.jvm or "")
    cluster_file.check(of_java, SIMULATED)
    if not 1 <= options.workers <= 64:
        raise UsageError("--workers takes 1 to 64")
    planted = None if options.planted is None else bug_named(options.planted).name
    if options.canary and (planted is not None or options.dir is not None or options.service is not None):
        raise UsageError("--canary plants a bug of its own in our node: leave out --planted, --dir and --service")
    own = own_code(options.service, options.user, options.model, options.schema)
    if own is not None:
        # Every seed would say it otherwise.
        spec = ClusterSpec(service=own.service, source=own.source, model=own.model, schema=own.schema)
        cluster_file.check(spec.made(""), SIMULATED)
        load_maker(own.user, own.source)
    origin = SeedOrigin(seeds[0], planted, own, require_rules(options.compatibility), options.search)
    if options.dir is not None:
        with labelled(options.dir, options.labels):
            return _one(options, options.dir, origin, seeds)
    cluster_file.require_room(options.out or runs_folder())
    with (
        run_folder(options.out, "campaign") as folder,
        nullcontext() if options.out is None else alone_in(options.out),
        labelled_seeds(folder, options.labels),
    ):
        status = _several(options, seeds, origin, folder, runner)
        then()
    return status


def _several(options: CampaignOptions, seeds: range, first: SeedOrigin, folder: Path, runner: Runner | None) -> int:
    planted, own = first.planted, first.own
    # The failures of a test build and of Aeron's rules are wanted.
    is_remembered = planted is None and first.compatibility == OWN
    memory = FailedSeeds(runs_folder(), own, first.search) if is_remembered else None
    remembered = [] if memory is None else memory.seeds
    ordered = list(dict.fromkeys([*remembered, *seeds]))
    line, begin, summary = ProgressLine(lines_every_s=CAMPAIGN_LINES_S), time.monotonic(), Summary()
    if remembered:
        note(f"failed last time, tried first: seed {', '.join(map(str, remembered))}")

    def show(outcome: SeedOutcome) -> None:
        if not outcome.is_valid:
            line.end()
            print(_failure(replace(first, seed=outcome.swarm.seed), outcome), file=sys.stderr, flush=True)
        if memory is not None and not (outcome.is_valid and outcome.is_inconclusive):
            memory.note(outcome.swarm.seed, has_failed=not outcome.is_valid)
        line.show(_progress(summary, len(ordered), time.monotonic() - begin))

    try:
        run_campaign(
            ordered,
            summary,
            workers=options.workers,
            runner=runner,
            planted=planted,
            own=own,
            compatibility=first.compatibility,
            search=first.search,
            remembered=remembered,
            keep=folder,
            out=options.out,
            is_alone=options.out is not None,
            until=lambda outcome: (planted is not None or options.shrink) and not outcome.is_valid,
            show=show,
        )
    finally:
        # Also of one that is interrupted.
        line.end()
        print(json.dumps(summary.to_fields(), indent=2) if options.json else as_text(summary), flush=True)
    verdicts = [summary.verdict]
    if not summary.counted and not summary.failed:
        print("no seed counts: each did too little to show anything; run more seeds", file=sys.stderr)
    if options.canary:
        canary = run_canary(seeds, options.workers, first.search)
        note(str(canary))
        verdicts += [] if canary.detected_by is not None else [Verdict.UNKNOWN]
    if options.shrink and summary.failed:
        failed = summary.failed[0]
        origin, run = replace(first, seed=failed.swarm.seed), folder / f"seed-{failed.swarm.seed}"
        _shrink(origin, failed, run, options.workers, options.out)
    return worst(verdicts).exit_status


def _one(options: CampaignOptions, folder: Path, origin: SeedOrigin, seeds: range) -> int:
    """One seed whose run folder stays."""
    if len(seeds) != 1:
        raise UsageError("--dir keeps the run of one seed: use --seeds N..N")
    if options.out is not None:
        raise UsageError("--dir keeps the run of one seed and writes no lines: remove --out")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} exists and is not an empty folder: give another --dir")
    cluster_file.require_room(folder)
    outcome = keep_seed(origin, folder).outcome
    outcome.folder = str(folder)
    summary = Summary()
    summary.add(outcome)
    text = json.dumps(outcome.to_fields(), indent=2) if options.json else f"{as_text(summary)}\n\n{folder}"
    print(text, flush=True)
    if outcome.is_valid and outcome.is_inconclusive:
        print(f"seed {origin.seed} does not count: it did too little to show anything", file=sys.stderr)
        return Verdict.UNKNOWN.exit_status
    if not outcome.is_valid:
        print(_failure(origin, outcome), file=sys.stderr)
        if options.shrink:
            _shrink(origin, outcome, folder, options.workers)
    return Verdict.named(outcome.verdict).exit_status


def _shrink(origin: SeedOrigin, failed: SeedOutcome, run: Path, jobs: int, out: Path | None = None) -> None:
    """With `out`, the campaign there keeps what the search leaves."""
    smallest, wanted = smallest_of(run), try_of(failed)
    report_search(f"seed {origin.seed}", lambda: shrink_into(origin, wanted, smallest, Budget(), jobs, out))


def _failure(origin: SeedOrigin, outcome: SeedOutcome) -> str:
    seed, own = origin.seed, origin.own
    command = ["upheaval", "campaign", "--seeds", f"{seed}..{seed}"]
    if origin.compatibility != OWN:
        command += ["--compatibility", origin.compatibility]
    if origin.search != UNIFORM:
        command += ["--search", origin.search]
    if origin.planted is not None:
        command += ["--planted", origin.planted]
    if own is not None:
        options = {"--service": own.service, "--user": own.user, "--model": own.model, "--schema": own.schema}
        command += [word for option, value in options.items() if value for word in (option, value)]
    again = shlex.join([*command, "--dir", f"runs/seed-{seed}"])
    screen, verdict, promise = screen_of(sys.stderr), Verdict.named(outcome.verdict), promise_of(outcome.promise)
    others = [line for line in outcome.findings if line != finding_line(verdict, promise, outcome.detail)]
    blocks = [evidence_block(verdict, promise, [outcome.detail], screen), *(screen.folded(line) for line in others)]
    return failed_seed(seed, blocks, again, outcome.folder)


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
        f"{summary.seeds} seed{'' if summary.seeds == 1 else 's'}: {summary.counted} count, "
        f"{len(summary.inconclusive)} inconclusive, {len(summary.failed)} failed",
        f"{summary.seconds:.0f} simulated seconds, {speed:.1f} a second of processor time; "
        f"{summary.operations} acknowledged operations, {summary.snapshots} snapshots asked for, "
        f"clusters ended and started again: {summary.endings}",
    ]
    if summary.counted:
        excluded = f"{rate_excluded(summary.counted):.2%}"
        lines.append(f"with {1 - CHANCE_MAX:.0%} confidence, fewer than {excluded} of all seeds fail")
    if summary.inconclusive:
        lines.append("inconclusive: " + " ".join(map(str, summary.inconclusive)))
    lines += gap_rows(summary.gaps, summary.seeds)
    lines += ["", "faults", *fault_rows(summary.faults)]
    lines += ["", "variations (seeds)", *fault_rows(summary.variations)]
    lines += ["", "members", *_histogram(summary.members)]
    lines += ["", "sync level", *_histogram(summary.sync_levels)]
    lines += ["", "service", *_histogram(summary.services)]
    lines += ["", "elections after the first one", *_histogram(summary.elections)]
    lines += ["", "moves of elections", *_histogram(summary.moves)]
    lines += ["", f"moves never made: {', '.join(summary.untaken_moves) or 'none'}"]
    lines += ["", _goals_line(summary.unreached_goals)]
    return "\n".join(lines)


def _goals_line(unreached: Sequence[str]) -> str:
    names = [*unreached[:GOALS_SHOWN]]
    if len(unreached) > len(names):
        names.append(f"{len(unreached) - len(names)} others (--json)")
    never = f"; never: {', '.join(names)}" if names else ""
    return f"{len(GOALS) - len(unreached)} of {len(GOALS)} goals reached{never}"


def _histogram(counts: Mapping[str, int] | Mapping[int, int]) -> list[str]:
    if not counts:
        return ["  none"]
    rows = [(str(name), count) for name, count in sorted(counts.items())]
    widest, most = max(len(name) for name, _ in rows), max(count for _, count in rows)
    return [f"  {name:<{widest}} {count:>8} {'#' * round(count / most * WIDTH)}" for name, count in rows]
