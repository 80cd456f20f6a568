"""A recording log has each term of its log at its place there, unless there is a legal reason why not."""

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from support.built_runs import CONVERGED_NS, BuiltRun, LogBuilder, new_term, session_message
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.history.clients import TERMS
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Converge, FinalPosition, RunFolder
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import S

MEMBER = 1
OPEN = -1
"""The end of a term that is not over."""
VALID, INVALID, REMOVED = 0, -0x80000000, -1
SECOND, FOURTH, END = 192, 384, 576
"""Where the terms 1 and 3 begin in the log, whose first term is 0, and its end. Term 2 has no entry."""


class Term(NamedTuple):
    """A term in a recording log."""

    number: int
    begin: int
    end: int
    kind: int = VALID

    def to_bytes(self, recording_id: int = 3) -> bytes:
        """Its record."""
        return struct.pack("<qqqqqii16x", recording_id, self.number, self.begin, self.end, CONVERGED_NS, -1, self.kind)


GOOD = (Term(0, 0, SECOND), Term(1, SECOND, FOURTH), Term(2, FOURTH, FOURTH), Term(3, FOURTH, OPEN))
Change = Callable[[RunFolder], object]


def run_of(path: Path, *terms: Term) -> RunFolder:
    """A run in which one member names these terms, in this order."""
    log, messages = LogBuilder(), []
    for term in (0, 1, 3):
        for message in (new_term(term, 0, log.position), session_message(b"deposit 1", term)):
            messages.append(message)
            log.append(message)
    assert log.position == END
    run = BuiltRun(payloads=[list(messages) for _ in range(3)]).write(path)
    name(run, b"".join(term.to_bytes() for term in terms))
    return run


def name(run: RunFolder, records: bytes) -> None:
    run.member(MEMBER).recording_log.write_bytes(records)


def judged(run: RunFolder) -> Finding:
    (result,) = TERMS.check(Evidence(RunFolder(run.path)))
    assert isinstance(result, Finding)
    assert result.promise is Promise.ENTRIES_IN_TERM
    return result


def require_invalid(run: RunFolder, term: int, position: int, named: str) -> None:
    finding = judged(run)
    assert finding.verdict is Verdict.INVALID
    assert (finding.members, finding.position) == ((MEMBER,), position)
    detail = f"the log of member {MEMBER} has term {term} at position {position}, where its recording log has {named}"
    assert finding.detail == detail


@pytest.mark.parametrize(
    ("terms", "wrong", "named"),
    [
        ((GOOD[0], GOOD[1], Term(2, FOURTH, OPEN)), (3, FOURTH), "term 2"),
        ((GOOD[0], Term(1, SECOND, OPEN)), (3, FOURTH), "term 1"),
        ((Term(0, 0, FOURTH), *GOOD[2:]), (1, SECOND), "term 0"),
        (GOOD[1:], (0, 0), "no term"),
        ((*GOOD[:3], GOOD[3]._replace(kind=INVALID)), (3, FOURTH), "term 2"),
        ((*GOOD[:3], GOOD[3]._replace(kind=REMOVED)), (3, FOURTH), "term 2"),
        ((Term(0, 0, 0), Term(1, 0, FOURTH), *GOOD[2:]), (0, 0), "term 1"),
        ((*GOOD[:2], Term(2, FOURTH, END), Term(3, END, OPEN)), (3, FOURTH), "term 2"),
    ],
    ids=[
        *("last", "last two", "middle", "first", "invalidated", "removed"),
        *("first without length", "last after its entries"),
    ],
)
def test_a_term_that_is_not_named_at_its_place_is_found(
    terms: tuple[Term, ...], wrong: tuple[int, int], named: str, tmp_path: Path
) -> None:
    term, begin = wrong
    require_invalid(run_of(tmp_path, *terms), term, begin + 96, named)


@pytest.mark.parametrize(
    "terms",
    [
        GOOD,
        tuple(reversed(GOOD)),
        (GOOD[0], GOOD[1], GOOD[3]),
        (Term(0, 0, SECOND), Term(1, SECOND, OPEN), GOOD[3]),
        (*GOOD[:3], Term(3, FOURTH, FOURTH)),
        (*GOOD[:3], Term(3, FOURTH, END), Term(4, END, OPEN)),
        (*GOOD[:2], Term(2, SECOND, OPEN, INVALID), Term(3, FOURTH, OPEN, INVALID), *GOOD[2:]),
    ],
    ids=["all", "in any order", "none for an empty term", "of a backup", "lost its leader", "no entry yet", "cut"],
)
def test_every_legal_way_to_name_them_is_valid(terms: tuple[Term, ...], tmp_path: Path) -> None:
    finding = judged(run_of(tmp_path, *terms))
    assert (finding.verdict, finding.detail) == (Verdict.VALID, "6 entries")


def test_a_snapshot_of_a_standby_between_two_terms_is_passed_over(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    endpoint = b"archive.standby-0.of-a-long-name:20104"
    snapshot = struct.pack("<qqqqqiiI", 9, 1, SECOND, FOURTH, 1, -1, 2, len(endpoint)) + endpoint
    name(run, b"".join(term.to_bytes() for term in GOOD[:2]) + snapshot.ljust(128, b"\0"))
    require_invalid(run, 3, FOURTH + 96, "term 1")
    with run.member(MEMBER).recording_log.open("ab") as stream:
        stream.write(GOOD[3].to_bytes())
    assert judged(run).verdict is Verdict.VALID


def other_system(run: RunFolder) -> None:
    run.write_manifest(replace(run.read_manifest(), system="aeron:1.51.0"))


def not_converged(run: RunFolder) -> None:
    """As when it was killed after the entry of the term was recorded."""
    run.write_manifest(replace(run.read_manifest(), converge=None))


def not_committed(run: RunFolder) -> None:
    finals = tuple(FinalPosition(member, FOURTH, FOURTH, 1) for member in range(3))
    run.write_manifest(replace(run.read_manifest(), converge=Converge(True, CONVERGED_NS, finals)))


def no_power(run: RunFolder, *, sync_level: int = 0, member: int = MEMBER) -> None:
    run.write_manifest(replace(run.read_manifest(), sync_level=sync_level))
    proof = Proof(True, f"member {member} is down")
    run.add_fault(FaultRecord("power-cut", f"member-{member}", S, S, 2 * S, 2 * S, proof, proof, members=(member,)))


def no_power_after_a_sync(run: RunFolder) -> None:
    no_power(run, sync_level=1)


def no_power_elsewhere(run: RunFolder) -> None:
    no_power(run, member=2)


def begins_later(run: RunFolder) -> None:
    """As after a purge: the terms before the first segment that is there are not in the log."""
    archive = run.member(MEMBER).archive
    catalog = bytearray((archive / "archive.catalog").read_bytes())
    at = catalog.rindex(struct.pack("<q", 3), 0, 32 + 128 + 32 + 24)
    struct.pack_into("<q", catalog, at + 24, FOURTH)
    (archive / "archive.catalog").write_bytes(catalog)


@pytest.mark.parametrize("change", [other_system, not_converged, not_committed, no_power])
def test_a_term_need_not_be_named(change: Change, tmp_path: Path) -> None:
    run = run_of(tmp_path, *GOOD[:3])
    assert judged(run).verdict is Verdict.INVALID
    change(run)
    assert judged(run).verdict is Verdict.VALID


@pytest.mark.parametrize("change", [no_power_after_a_sync, no_power_elsewhere, begins_later])
def test_the_last_term_must_be_named_all_the_same(change: Change, tmp_path: Path) -> None:
    run = run_of(tmp_path, *GOOD[:3])
    change(run)
    require_invalid(run, 3, FOURTH + 96, "term 2")


def test_a_log_that_begins_later_has_no_terms_before_its_beginning(tmp_path: Path) -> None:
    run = run_of(tmp_path, GOOD[3])
    assert judged(run).verdict is Verdict.INVALID
    begins_later(run)
    assert judged(run).verdict is Verdict.VALID
