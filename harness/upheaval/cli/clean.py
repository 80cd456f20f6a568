"""`upheaval clean`: removes what abandoned runs left, and run folders that have grown old."""

import json
from dataclasses import asdict
from pathlib import Path

from upheaval.cli.operate_commands import CleanOptions
from upheaval.operations.clean import Left, Leftover, clean as clean_machine


def clean(options: CleanOptions) -> int:
    """One line for each thing; what cannot be looked at is told and no failure."""
    is_dry = options.dry_run
    runs = None if options.runs is None else Path(options.dir)
    count = 0
    for each in clean_machine(runs=runs, older_s=options.runs or 0.0, is_dry=is_dry):
        count += isinstance(each, Leftover)
        if options.json:
            print(json.dumps({**asdict(each), **({} if isinstance(each, Left) else {"removed": not is_dry})}))
        elif isinstance(each, Left):
            print(f"left alone: {each.what}: {each.why}")
        else:
            verb = "would end" if each.kind == "process" else "would remove"
            done = "ended" if each.kind == "process" else "removed"
            print(f"{verb if is_dry else done} {each.kind} {each.name}")
    if not count and not options.json:
        print("nothing is left of abandoned runs")
    return 0
