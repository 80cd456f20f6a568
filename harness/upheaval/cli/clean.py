"""`upheaval clean`: removes what abandoned runs left, and run folders that have grown old."""

import json
from dataclasses import asdict

from upheaval.cli.new_folder import runs_folder
from upheaval.cli.operate_commands import CleanOptions
from upheaval.operations.clean import Left, Leftover, clean as clean_machine


def clean(options: CleanOptions) -> int:
    """Print one line for each leftover. What cannot be looked at gets a line too, and is no failure."""
    is_dry = options.dry_run
    runs = None if options.runs is None else options.dir or runs_folder()
    count = 0
    for leftover in clean_machine(runs=runs, older_s=options.runs or 0.0, is_dry=is_dry):
        count += isinstance(leftover, Leftover)
        if options.json:
            print(json.dumps({**asdict(leftover), **({} if isinstance(leftover, Left) else {"removed": not is_dry})}))
        elif isinstance(leftover, Left):
            print(f"left alone: {leftover.what}: {leftover.why}")
        else:
            verb = "would end" if leftover.kind == "process" else "would remove"
            done = "ended" if leftover.kind == "process" else "removed"
            print(f"{verb if is_dry else done} {leftover.kind} {leftover.name}")
    if not count and not options.json:
        print("nothing is left of abandoned runs")
    return 0
