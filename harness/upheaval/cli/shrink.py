"""`upheaval shrink`: the simplest cluster, load and faults that break a promise as a seed of a campaign did."""

import json
import shutil
import sys
from pathlib import Path
from typing import Final

from upheaval.campaign.seed import SeedOrigin, keep_seed, seed_of_run, try_origin
from upheaval.campaign.shrink import RUNS_MAX, Budget
from upheaval.campaign.shrink_seed import Smallest, shrink_seed, try_of
from upheaval.campaign.tries import TRIES_FILE, Try
from upheaval.cli.fault_commands import ShrinkOptions
from upheaval.cli.output import note
from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import Json, owned_folder
from upheaval.runtimes import cluster_file
from upheaval_chaos.exit_status import CommandStatus

SUFFIX: Final = "-smallest"
"""Of the folder beside the run."""


def shrink(options: ShrinkOptions) -> int:
    """0 with a simplest run that fails alike; unknown when the run does not fail again."""
    origin = seed_of_run(options.run)
    if origin is None:
        raise UsageError(f"{options.run} is no run of a simulated campaign: shrink takes the folder of a seed")
    run = options.run.absolute()
    out = (options.out or run.with_name(f"{run.name}{SUFFIX}")).absolute()
    if out == run:
        raise UsageError(f"{out} is the run itself: give another --out")
    budget = Budget(options.runs or RUNS_MAX, options.seconds or float("inf"))
    with owned_folder("campaign") as scratch:
        failed = try_of(try_origin(origin, scratch, None))
    if not failed.fingerprints:
        raise UnknownOutcome(f"{options.run} fails no more: the node or the simulation has changed since")
    smallest = shrink_into(origin, failed, out, budget, options.jobs)
    print(json.dumps(fields_of(smallest, out), indent=2) if options.json else as_text(smallest, out), flush=True)
    return CommandStatus.VALID


def shrink_into(origin: SeedOrigin, failed: Try, out: Path, budget: Budget, jobs: int) -> Smallest:
    """Leave the run of the simplest plan in that folder, with the tries. One that was ended goes on there."""
    tries = out / TRIES_FILE
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not tries.is_file())):
        raise UsageError(f"{out} is there already and no search: give another --out")
    cluster_file.require_room(out)
    smallest = shrink_seed(origin, failed, tries, budget, jobs, note)
    # An earlier search that was ended by its budget left its own smallest run.
    for entry in out.iterdir():
        if entry != tries:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    keep_seed(smallest.origin, out)
    return smallest


def fields_of(smallest: Smallest, out: Path) -> dict[str, Json]:
    """As `--json` prints it."""
    return {
        "run": str(out),
        "fingerprint": smallest.wanted.to_fields(),
        "runs": smallest.runs,
        "is_over": smallest.is_over,
        "faults": smallest.faults,
        "operations": smallest.shown.operations,
        "virtual_seconds": smallest.shown.virtual_ms / 1000,
        "tape": smallest.tape.to_fields(),
        "others": [
            {"fingerprint": fingerprint.to_fields(), "tape": dict(tape)}
            for fingerprint, tape in smallest.others.items()
        ],
    }


def as_text(smallest: Smallest, out: Path) -> str:
    """For people: what is left, the other findings, and where it is."""
    swarm, shown = smallest.origin.swarm(), smallest.shown
    faults = ", ".join(swarm.shown_faults) or "no faults"
    lines = [
        f"smallest of {smallest.runs} runs: {swarm.members} members, {swarm.seconds} s of load, {faults}; "
        f"{shown.operations} operations acknowledged in {shown.virtual_ms / 1000:g} virtual seconds",
        f"  fails alike: {smallest.wanted}",
    ]
    if smallest.is_over:
        lines.append("  the budget ended the search: the same command with more --runs goes on")
    lines += [f"  another failure on the way: {fingerprint}" for fingerprint in smallest.others]
    return "\n".join([*lines, f"  {out}"])


def report(smallest: Smallest, out: Path) -> None:
    """On standard error, beside the figures of a campaign."""
    print(as_text(smallest, out), file=sys.stderr, flush=True)
