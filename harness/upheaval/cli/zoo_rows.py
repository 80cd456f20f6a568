"""Runs the zoo for the command line, and prints a row for each bug as soon as its searches are over."""

import json

from upheaval.campaign.zoo import Row, run_zoo
from upheaval.cli.fault_commands import ZooOptions
from upheaval.cli.new_folder import run_folder, runs_folder
from upheaval.cli.output import note
from upheaval.cli.tables import table
from upheaval.runtimes import cluster_file
from upheaval_chaos.exit_status import CommandStatus
from upheaval_chaos.planted.catalogue import CATALOGUE, bug_named

HEADINGS = ["area", "bug", "caught", "by", "seeds", "processor s"]


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
        ):
            rows.append(row)
            note(f"{len(rows)} of {len(bugs)}: {row.bug} {_fate(row)}")
    if options.json:
        print(json.dumps([row.to_fields() for row in rows], indent=2))
    else:
        print(table([HEADINGS, *map(_cells, rows)]))
    return CommandStatus.VALID if all(row.is_caught for row in rows) else CommandStatus.BROKEN


def _fate(row: Row) -> str:
    if row.is_caught:
        return f"caught by {row.promises[0]} after {row.seeds} seeds"
    return f"escaped; met {', '.join(row.others)}" if row.others else "escaped"


def _cells(row: Row) -> list[str]:
    caught = f"{row.caught} of {row.searches}"
    if not row.is_caught:
        return [row.area, row.bug, caught, "escaped", "", ""]
    return [row.area, row.bug, caught, ", ".join(row.promises), str(row.seeds), f"{row.processor_seconds:.1f}"]
