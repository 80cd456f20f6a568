"""How a copy of a Java service differs from the one that read the whole log, on trails made by hand."""

import pytest

from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.checkers.own.java_copies import CopyTrail, Plan
from upheaval.checkers.own.java_trails import first_difference

ENTRIES = [Entry(96 * number, EntryKind.REQUEST, number, text=f"entry {number}") for number in (1, 2, 3)]
RAISED = "onRoleChange raises java.lang.NullPointerException: archiveContext"


@pytest.mark.parametrize(
    ("other", "raised"),
    [
        (CopyTrail(Plan(), {1: Effects(raised=RAISED)}, ended=""), RAISED),
        (CopyTrail(Plan(), ended=RAISED), RAISED),
        (CopyTrail(Plan(), {0: Effects(offers=(b"x",)), 1: Effects(raised=RAISED)}, ended=""), ""),
    ],
    ids=["first", "ended", "after another difference"],
)
def test_an_exception_is_named_where_it_is_the_first_difference(other: CopyTrail, raised: str) -> None:
    difference = first_difference(ENTRIES, CopyTrail(Plan(), ended=""), other, hears=False)
    assert difference is not None
    assert difference.raised == raised


def test_an_exception_of_the_copy_that_read_the_whole_log_is_none_of_the_other() -> None:
    whole = CopyTrail(Plan(), {1: Effects(raised=RAISED)}, ended="")
    difference = first_difference(ENTRIES, whole, CopyTrail(Plan(), ended=""))
    assert difference is not None
    assert (difference.position, difference.raised) == (192, "")
