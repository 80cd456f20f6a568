"""The promise that members sent the messages that an exact script expects.

Compares the messages in the manifest with the protocol traces. This module knows no script.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, NotApplicable, Result, Verdict
from upheaval.records import Choice, Entry, Expected, RunFolder, chosen, column_lines, read_entries
from upheaval_node.trace_kinds import TraceKind


def check_expected(evidence: Evidence) -> Iterable[Result]:
    """Judge all expected messages."""
    run, manifest = evidence.run, evidence.manifest
    if not manifest.expected:
        return [NotApplicable(Promise.AS_EXPECTED, "no script says which messages to expect")]
    missing = tuple(member_id for member_id in range(manifest.members) if not run.member(member_id).protocol_files())
    if missing:
        why = f"the protocol trace of member {missing[0]} is missing"
        return [Finding(Promise.AS_EXPECTED, Verdict.UNKNOWN, why, members=missing)]
    compared = [(expected, _difference(run, expected)) for expected in manifest.expected]
    different = [f"{expected.message}: {difference}" for expected, difference in compared if difference]
    if different:
        return [Finding(Promise.AS_EXPECTED, Verdict.INVALID, "; ".join(different))]
    equal = [f"{expected.message}: {len(expected.lines)} messages, field by field" for expected in manifest.expected]
    return [Finding(Promise.AS_EXPECTED, Verdict.VALID, "; ".join(equal))]


def sent_messages(run: RunFolder, expected: Expected) -> Sequence[tuple[int, Entry]]:
    """The messages with the expected name that were sent, in order, up to the number that is compared.

    Raises `UsageError` for a malformed trace.
    """
    members = frozenset(() if expected.source is None else (expected.source,))
    entries = chosen(read_entries(run), Choice(members, frozenset((expected.message,))))
    sent = ((ns, entry) for ns, entry in entries if entry.event == TraceKind.SEND)
    return list(islice(sent, expected.first))


def _difference(run: RunFolder, expected: Expected) -> str:
    """The first difference; empty if there is none."""
    masked = frozenset(expected.masked)
    sent = [_canonical(line) for line in column_lines(sent_messages(run, expected), masked=masked)]
    wanted = [_canonical(line) for line in expected.lines]
    for number, (line, other) in enumerate(zip(sent, wanted, strict=False), start=1):
        if line != other:
            return f"message {number} is {line!r}, expected was {other!r}"
    return "" if len(sent) == len(wanted) else f"{len(sent)} messages were sent, {len(wanted)} were expected"


def _canonical(line: str) -> str:
    """The line without the spaces that align values."""
    return " ".join(line.replace("|", " | ").split())


EXPECTED: Final = Checker("expected-messages", (Promise.AS_EXPECTED,), frozenset({Source.PROTOCOL}), check_expected)
