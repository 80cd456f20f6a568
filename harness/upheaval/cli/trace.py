"""`upheaval trace`: the messages and state changes of a run as text, or as a JSON object a line."""

import json

from upheaval.cli.judge_commands import TraceOptions
from upheaval.errors import UsageError
from upheaval.records import COLUMNS, Choice, RunFolder, chosen, plain_lines, read_entries, seed_lines
from upheaval_node.protocol_trace import MESSAGE_NAMES
from upheaval_node.suggestions import did_you_mean


def trace(options: TraceOptions) -> int:
    """Raises `UsageError` for a run that has no protocol trace, and for names that no message has."""
    names = frozenset(options.messages)
    for name in sorted(names - MESSAGE_NAMES):
        hint = did_you_mean(name, MESSAGE_NAMES)
        raise UsageError(f"unknown message {name!r}: use a name of the schemas, such as NewLeadershipTerm{hint}")
    run = RunFolder(options.run)
    members = frozenset(options.members)
    count = run.read_manifest().members
    for member_id in sorted(members - set(range(count))):
        raise UsageError(f"unknown member {member_id}: this run has {count} members")
    entries = chosen(read_entries(run), Choice(members, names, options.from_s, options.to_s))
    if options.json:
        for _, entry in entries:
            print(json.dumps(entry.record, separators=(",", ":")))
    else:
        for line in seed_lines(entries) if options.notation == COLUMNS else plain_lines(entries):
            print(line)
    return 0
