"""`upheaval top`: lag, rates and faults of the members at one look, on a terminal and elsewhere."""

import io
from dataclasses import replace

import pytest

from upheaval.cli.top import HEADS, screen_of, show
from upheaval.runtimes.look import Look, rows_of
from upheaval.system import MemberStatus
from upheaval_chaos.record import FaultRecord, Proof

S = 1_000_000_000


def status(member_id: int, appended: int, committed: int) -> MemberStatus:
    return MemberStatus(member_id, True, "FOLLOWER", 3, 0, "CLOSED", appended, committed)


LOOK = Look(2 * S, [status(0, 9_000, 8_000), status(1, 8_500, 8_000), MemberStatus(2, False)])


def test_lag_is_behind_the_member_that_has_appended_most() -> None:
    assert [row.lag for row in rows_of(LOOK, None)] == [0, 500, None]
    assert [row.rate for row in rows_of(LOOK, None)] == [None, None, None]


@pytest.mark.parametrize(
    ("earlier", "rate"),
    [
        (status(0, 5_000, 4_000), 2_000.0),
        (status(0, 9_000, 8_000), 0.0),
        (status(0, 9_900, 9_500), None),  # the log was cut, or the member started again
        (MemberStatus(0, False), None),
    ],
)
def test_the_rate_is_that_since_the_look_before(earlier: MemberStatus, rate: float | None) -> None:
    before = Look(0, [earlier, *LOOK.statuses[1:]])
    assert rows_of(LOOK, before)[0].rate == rate


def test_the_screen_fits_80_columns_and_has_the_last_faults() -> None:
    kill = FaultRecord("kill", "member-2", 1, 2, inject_proof=Proof(True, "gone: member-2/1"))
    pause = replace(kill, what="pause", heal_begin_ns=3, heal_end_ns=4, heal_proof=Proof(True, "running"))
    widest = [replace(row.status, append_position=10**9, commit_position=10**9) for row in rows_of(LOOK, None)]
    lines = screen_of(rows_of(Look(S, widest), None), [kill] * 5 + [pause]).splitlines()
    assert lines[0].split() == list(HEADS)
    assert max(map(len, lines[:5])) <= 80
    assert lines[-3:] == [
        "kill member-2, on: gone: member-2/1",
        "kill member-2, on: gone: member-2/1",
        "pause member-2, healed: gone: member-2/1; healed: running",
    ]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_drawn_over_and_a_file_gets_a_table_below_the_time() -> None:
    terminal, file = Terminal(), io.StringIO()
    show("one\ntwo", terminal)
    show("one\ntwo", file)
    assert terminal.getvalue().startswith("\x1b[H")
    assert terminal.getvalue().endswith("two\x1b[K\n\x1b[J")
    assert "\x1b" not in file.getvalue()
    assert file.getvalue().splitlines()[1:] == ["one", "two"]
