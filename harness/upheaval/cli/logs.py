"""`upheaval logs`: what members and services of a run said, with level and time."""

import argparse
import json

from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report.logs import read_logs


def logs(options: argparse.Namespace) -> int:
    """Raises `UsageError` for a member that the run does not have."""
    run = RunFolder(options.run)
    count = run.read_manifest().members
    for member_id in sorted(set(options.member or ()) - set(range(count))):
        raise UsageError(f"unknown member {member_id}: this run has {count} members")
    for line in read_logs(run, options.member or (), options.level):
        print(json.dumps(line.to_fields(), separators=(",", ":")) if options.json else line)
    return 0
