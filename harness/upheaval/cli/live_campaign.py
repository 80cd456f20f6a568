"""`upheaval campaign --runtime process` or `docker`: drawn schedules, each on a live cluster of its own."""

import json
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from upheaval.campaign.kept import SEED_RUNS, SUMMARY_FILE, alone_in, require_new
from upheaval.campaign.live import LiveCampaign, LiveOutcome, LiveSummary, run_live
from upheaval.campaign.seed_lines import SEEDS_FILE
from upheaval.campaign.shrink_text import RUN_FOLDER
from upheaval.checkers.verdict import Verdict
from upheaval.cli.campaign_rows import fault_rows, gap_rows
from upheaval.cli.fault_commands import CampaignOptions
from upheaval.cli.new_folder import run_folder, runs_folder
from upheaval.cli.progress import CAMPAIGN_LINES_S, ProgressLine, bar
from upheaval.cli.screen import screen_of
from upheaval.cli.shrink import shrink_beside
from upheaval.cli.verdict_text import evidence_block, failed_seed
from upheaval.errors import UsageError
from upheaval.load.own import load_maker, own_code
from upheaval.records import RunFolder, write_atomically
from upheaval.records.labels import labels_of, write_labels
from upheaval.runtimes import cluster_file
from upheaval.system import CLUSTER_OF_THREE
from upheaval_chaos.planted.catalogue import bug_named


def live_campaign(options: CampaignOptions, runtime: str, seeds: range) -> int:
    """Run the schedules of the seeds; the exit status is that of the worst verdict."""
    if options.workers != 1:
        raise UsageError(f"clusters on the {runtime} runtime run one after the other: leave out --workers")
    if options.dir is not None:
        raise UsageError("--dir is for simulated seeds: use --out")
    planted = None if options.planted is None else bug_named(options.planted).name
    own = own_code(options.service, options.user, options.model, options.schema)
    system = options.system or CLUSTER_OF_THREE.system
    if own is not None:
        load_maker(own.user, own.source)
    with run_folder(options.out, "campaign") as folder, labelled_seeds(folder, options.labels):
        require_new(folder)
        campaign = LiveCampaign(runtime, system, folder.absolute(), planted, own, options.launcher, options.jvm)
        cluster_file.check(campaign.scenario(seeds[0]).cluster.made(""), runtime)
        cluster_file.require_room(options.out or runs_folder())
        summary = LiveSummary()
        with alone_in(folder):
            # One may have ended there since.
            require_new(folder)
            _all(campaign, seeds, summary, options)
    return summary.verdict.exit_status


def _all(campaign: LiveCampaign, seeds: range, summary: LiveSummary, options: CampaignOptions) -> None:
    failed: LiveOutcome | None = None
    try:
        failed = _run(campaign, seeds, summary, ends_at_failure=options.shrink)
    finally:
        # Also of a campaign that is interrupted.
        write_atomically(campaign.folder / SUMMARY_FILE, json.dumps(summary.to_fields(), indent=2) + "\n")
        print(json.dumps(summary.to_fields(), indent=2) if options.json else as_text(summary), flush=True)
    if failed is not None:
        shrink_beside(Path(failed.folder))


@contextmanager
def labelled_seeds(folder: Path, named: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Label the runs that a campaign leaves in its folder, however it ends."""
    before = _runs_in(folder)
    try:
        yield
    finally:
        labels = labels_of(named, os.environ)
        for run, _ in sorted(_runs_in(folder) - before):
            write_labels(run, labels)


def _runs_in(folder: Path) -> set[tuple[Path, int]]:
    """The runs of seeds, and those that searches for simpler ones left in their folders, with the time of the manifest:
    one may replace another one of the same seed.
    """
    folders = (run for pattern in (SEED_RUNS, f"{SEED_RUNS}/{RUN_FOLDER}") for run in folder.glob(pattern))
    manifests = [(run, RunFolder(run).manifest_file) for run in folders]
    return {(run, manifest.stat().st_mtime_ns) for run, manifest in manifests if manifest.is_file()}


def _run(campaign: LiveCampaign, seeds: range, summary: LiveSummary, *, ends_at_failure: bool) -> LiveOutcome | None:
    """Returns the failed seed at which it ended."""
    line = ProgressLine(lines_every_s=CAMPAIGN_LINES_S)
    try:
        for outcome in run_live(campaign, seeds):
            summary.add(outcome)
            with (campaign.folder / SEEDS_FILE).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(campaign.line(outcome), separators=(",", ":")) + "\n")
            if outcome.verdict is not Verdict.VALID:
                line.end()
                print(_failure(outcome), file=sys.stderr, flush=True)
            line.show(
                f"[{bar(summary.seeds / len(seeds))}] {summary.seeds} of {len(seeds)} seeds, {_verdicts(summary)}"
            )
            if ends_at_failure and outcome.verdict is Verdict.INVALID:
                return outcome
    finally:
        line.end()
    return None


def _failure(outcome: LiveOutcome) -> str:
    screen, report = screen_of(sys.stderr), outcome.report
    bad = [finding for finding in report.worst_first if finding.verdict is not Verdict.VALID]
    blocks = [
        evidence_block(finding.verdict, finding.promise, (finding.detail, *finding.explained), screen)
        for finding in bad
    ]
    return failed_seed(outcome.seed, blocks, shlex.join(["upheaval", "replay", outcome.folder]))


def _verdicts(summary: LiveSummary) -> str:
    return ", ".join(f"{len(seeds)} {verdict.text}" for verdict, seeds in summary.verdicts.items() if seeds)


def as_text(summary: LiveSummary) -> str:
    """Figures for people."""
    lines = [f"seeds: {_verdicts(summary) or 'none was run'}"]
    lines += [
        f"{verdict.text}: {' '.join(map(str, seeds))}"
        for verdict, seeds in summary.verdicts.items()
        if seeds and verdict is not Verdict.VALID
    ]
    lines += [f"{known}: {' '.join(map(str, seeds))}" for known, seeds in sorted(summary.known.items())]
    lines += gap_rows(summary.gaps, summary.seeds)
    lines.append(f"{summary.seconds:.0f} seconds, {summary.operations} acknowledged operations")
    return "\n".join([*lines, "", "faults", *fault_rows(summary.faults)])
