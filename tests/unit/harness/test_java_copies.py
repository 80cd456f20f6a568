"""What copies of a Java service print, of which programs on the same standard output add lines."""

import pytest

from upheaval.checkers.own.effects import Effects
from upheaval.checkers.own.java_copies import CopyTrail, Plan, effects_by_copy

LINES = b'{"copy":0,"entry":3,"raised":"a"}\n{"copy":1,"entry":4,"raised":"b"}\n{"copy":0,"ended":""}\n'
NOTE = b"[0.004s][info][gc] Using Serial\n"


def trails(output: bytes) -> list[CopyTrail]:
    return effects_by_copy(output, [Plan(), Plan()])


@pytest.mark.parametrize("note", [NOTE, b"OpenJDK 64-Bit Server VM warning: no memory\n", b"5\n", b"null\n", b"\n"])
def test_lines_of_the_virtual_machine_are_passed_over(note: bytes) -> None:
    first, rest = LINES.split(b"\n", 1)
    for output in (note + LINES, first + b"\n" + note + rest, LINES + note):
        whole, other = trails(output)
        assert whole.effects == {3: Effects(raised="a")}
        assert other.effects == {4: Effects(raised="b")}
        assert (whole.ended, other.ended) == ("", None)


@pytest.mark.parametrize("torn", [LINES[:50], LINES[:50] + NOTE + LINES[50:], b"no line end" + LINES])
def test_what_follows_a_torn_line_is_not_read(torn: bytes) -> None:
    whole, other = trails(torn)
    assert (whole.ended, other.ended, other.effects) == (None, None, {})
