"""`upheaval export`: the history of a run for another judge."""

import sys

from upheaval.cli.judge_commands import ExportOptions
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import RunFolder
from upheaval.records.exported import FORMATS


def export(options: ExportOptions) -> int:
    """Write the lines, and one line that says what they hold; returns the exit status."""
    run = RunFolder(options.run)
    run.read_manifest()
    exported = FORMATS[options.format](list(run.read_history()), options.kind)
    if not exported.operations:
        why = "".join(f": {note}" for note in exported.notes)
        raise UsageError(f"{run.history_file} has no operation on a {options.kind} to write{why}")
    text = "".join(f"{line}\n" for line in exported.lines)
    if options.out is None:
        sys.stdout.write(text)
    else:
        try:
            options.out.write_text(text, encoding="utf-8")
        except OSError as error:
            raise EnvironmentFault(f"cannot write {options.out}: {error.strerror}") from error
    summary = "; ".join([f"{exported.operations} operations in {len(exported.lines)} events", *exported.notes])
    print(summary, file=sys.stderr if options.out is None else sys.stdout)
    return 0
