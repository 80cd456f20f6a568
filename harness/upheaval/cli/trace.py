"""`upheaval trace`: the messages and state changes of a run as text, or as a JSON object a line."""

import argparse
import json
from math import isfinite
from pathlib import Path
from typing import Any

from upheaval.errors import UsageError
from upheaval.records import NOTATIONS, PLAIN, SEED, Choice, RunFolder, chosen, plain_lines, read_entries, seed_lines
from upheaval_node.protocol_trace import MESSAGE_NAMES


def add_command(commands: Any) -> None:
    """Add `trace` to the command line."""
    parser = commands.add_parser("trace", help="each message and state change of a run whose protocol was traced")
    parser.add_argument("run", type=Path, metavar="RUN", help="the run folder")
    parser.add_argument("--member", type=int, action="append", metavar="N", help="this member only; may be repeated")
    parser.add_argument("--message", action="append", metavar="NAME", help="such as NewLeadershipTerm; may be repeated")
    parser.add_argument("--from", dest="from_s", type=_seconds, metavar="T", help="seconds since the first entry")
    parser.add_argument("--to", dest="to_s", type=_seconds, metavar="T", help="seconds since the first entry")
    parser.add_argument("--notation", choices=NOTATIONS, default=PLAIN, help="seed: messages sent, as the documents do")
    parser.add_argument("--json", action="store_true", help="one object a line, as they stand in the run folder")
    parser.set_defaults(command=lambda options: trace(options))


def _seconds(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


_seconds.__name__ = "number of seconds"  # what argparse calls the type in its message


def trace(options: argparse.Namespace) -> int:
    """Raises `UsageError` for a run that has no protocol trace, and for names that no message has."""
    names = frozenset(options.message or ())
    for name in sorted(names - MESSAGE_NAMES):
        raise UsageError(f"there is no message {name!r}: names are those of the schemas, such as NewLeadershipTerm")
    run = RunFolder(options.run)
    members = frozenset(options.member or ())
    count = run.read_manifest().members
    for member_id in sorted(members - set(range(count))):
        raise UsageError(f"there is no member {member_id}: this run has {count} members")
    entries = chosen(read_entries(run), Choice(members, names, options.from_s, options.to_s))
    if options.json:
        for _, entry in entries:
            print(json.dumps(entry.record, separators=(",", ":")))
    else:
        for line in seed_lines(entries) if options.notation == SEED else plain_lines(entries):
            print(line)
    return 0
