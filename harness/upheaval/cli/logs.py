"""`upheaval logs`: what members and services of a run logged, with level and time."""

import json

from upheaval.cli.judge_commands import LogsOptions
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report.logs import read_logs


def logs(options: LogsOptions) -> int:
    """Raises `UsageError` for a member that the run does not have."""
    run = RunFolder(options.run)
    count = run.read_manifest().members
    for member_id in sorted(set(options.members) - set(range(count))):
        raise UsageError(f"unknown member {member_id}: this run has {count} members")
    for line in read_logs(run, options.members, options.level):
        print(json.dumps(line.to_fields(), separators=(",", ":")) if options.json else line)
    return 0
