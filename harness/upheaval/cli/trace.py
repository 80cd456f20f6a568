"""`upheaval trace`: the messages and state changes of a run as text, or as a JSON object a line."""

import json

from upheaval.cli.judge_commands import TraceOptions
from upheaval.errors import UsageError
from upheaval.records import COLUMNS, Choice, Payloads, RunFolder, chosen, column_lines, plain_lines, read_entries
from upheaval.report.requests import logged_requests, message_name
from upheaval_node.protocol_trace import MESSAGE_NAMES
from upheaval_node.suggestions import did_you_mean


def trace(options: TraceOptions) -> int:
    """Raises `UsageError` for a run that has no protocol trace, and for names that no message has."""
    if options.requests:
        return _requests(options)
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
        for line in column_lines(entries) if options.notation == COLUMNS else plain_lines(entries):
            print(line)
    return 0


def _requests(options: TraceOptions) -> int:
    """The requests in the log. Raises `UsageError` for messages that the schema does not have."""
    chosen_otherwise = (options.members, options.from_s is not None, options.to_s is not None)
    if any(chosen_otherwise) or options.notation == COLUMNS:
        raise UsageError("--requests are in the order of the log: leave out --member, --from, --to and --notation")
    run = RunFolder(options.run)
    manifest = run.read_manifest()
    payloads = Payloads.of(run)
    names = frozenset(options.messages)
    known = {} if payloads.schema is None else payloads.schema.messages
    for name in sorted(names - known.keys()):
        use = f"use {', '.join(known)}" if known else "the run has no schema"
        raise UsageError(f"unknown message {name!r}: {use}{did_you_mean(name, known)}")
    for request in logged_requests(run, manifest):
        if not names or message_name(request.payload, payloads) in names:
            print(json.dumps(request.to_fields(payloads)) if options.json else request.line(payloads))
    return 0
