"""Runs the zoo for the command line, and prints a row for each bug as soon as its searches are over."""

import json
from dataclasses import replace
from pathlib import Path

from upheaval.campaign.seed import SeedOrigin, try_origin
from upheaval.campaign.shrink import Budget
from upheaval.campaign.shrink_seed import try_of
from upheaval.campaign.zoo import Row, Shrunk, read_progress, run_zoo, write_progress
from upheaval.cli.fault_commands import ZooOptions
from upheaval.cli.new_folder import run_folder, runs_folder
from upheaval.cli.output import note
from upheaval.cli.shrink import shrink_into, smallest_of
from upheaval.cli.tables import table
from upheaval.records import owned_folder
from upheaval.runtimes import cluster_file
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.planted.catalogue import CATALOGUE, bug_named

HEADINGS = ["area", "bug", "caught", "by", "seeds", "processor s"]
SHRUNK_HEADINGS = ["members", "faults", "operations", "runs", "fail alike"]


def run(options: ZooOptions) -> int:
    """The searches go on where an earlier zoo in the same folder was ended."""
    bugs = [bug_named(name) for name in dict.fromkeys(options.names)] or list(CATALOGUE)
    rows: list[Row] = []
    cluster_file.require_room(options.out or runs_folder())
    with run_folder(options.out, "zoo") as folder:
        note(f"{len(bugs)} bugs, the searches in {folder}")
        for row in run_zoo(
            bugs,
            folder,
            first_seed=options.first_seed,
            budget_s=options.budget,
            repeats=options.repeats,
            jobs=options.jobs,
            search=options.search,
        ):
            row = _with_shrunk(row, folder, options.jobs) if options.shrink else row
            rows.append(row)
            note(f"{len(rows)} of {len(bugs)}: {row.bug} {_fate(row)}")
    if options.json:
        print(json.dumps([row.to_fields() for row in rows], indent=2))
    else:
        headings = HEADINGS + SHRUNK_HEADINGS if options.shrink else HEADINGS
        print(table([headings, *([*_cells(row), *_shrunk_cells(row.shrunk)][: len(headings)] for row in rows)]))
    return CommandStatus.VALID if all(row.is_caught for row in rows) else CommandStatus.BROKEN


def _fate(row: Row) -> str:
    if row.is_caught:
        return f"caught by {row.promises[0]} after {row.seeds} seeds"
    return f"escaped; met {', '.join(row.others)}" if row.others else "escaped"


def _cells(row: Row) -> list[str]:
    caught = f"{row.caught} of {row.searches}"
    if not row.is_caught:
        return [row.area, row.bug, caught, "escaped", f"> {row.spent_seeds}", f"> {row.spent_seconds:.1f}"]
    return [row.area, row.bug, caught, ", ".join(row.promises), str(row.seeds), f"{row.processor_seconds:.1f}"]


def _with_shrunk(row: Row, folder: Path, jobs: int) -> Row:
    """The row with the size of its shrunk seed. A zoo that was ended has those of earlier rows in its folder."""
    if row.found_by is None:
        return row
    file = folder / f"{row.bug}-shrunk.json"
    known = read_progress(Shrunk, file)
    if known is not None and known.seed == row.found_by:
        return replace(row, shrunk=known)
    shrunk = _shrunk(SeedOrigin(row.found_by, row.bug, search=row.search), smallest_of(folder / row.bug), jobs)
    write_progress(shrunk, file)
    return replace(row, shrunk=shrunk)


def _shrunk(origin: SeedOrigin, out: Path, jobs: int) -> Shrunk:
    with owned_folder("campaign") as scratch:
        failed = try_of(try_origin(origin, scratch, None))
    left = shrink_into(origin, failed, out, Budget(), jobs)
    plan, text = left.plan, left.text
    assert plan is not None
    fresh = (0, 0) if text is None else (text.fresh, text.fresh_runs)
    members = plan.origin.swarm().members
    return Shrunk(origin.seed, members, plan.faults, plan.shown.operations, plan.runs, plan.is_over, *fresh)


def _shrunk_cells(shrunk: Shrunk | None) -> list[str]:
    if shrunk is None:
        return [""] * len(SHRUNK_HEADINGS)
    runs = f"> {shrunk.runs}" if shrunk.is_over else str(shrunk.runs)
    fresh = f"{shrunk.fresh} of {shrunk.fresh_runs}" if shrunk.fresh_runs else "no text"
    return [str(shrunk.members), str(shrunk.faults), str(shrunk.operations), runs, fresh]
