"""The lines of a file that grows, or that another one replaces under its name."""

from pathlib import Path

import pytest

from support.built_campaigns import seed_line, write_seeds
from upheaval.checkers.verdict import Verdict
from upheaval.ui.campaigns import Campaign
from upheaval.watch.tails import EDGE, LineTail

LONG = b"x" * EDGE


def test_whole_lines_are_read_once_with_their_numbers(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    tail = LineTail(file)
    assert tail.more() == []
    file.write_bytes(b"one\ntwo\nthr")
    assert (tail.more(), tail.more(), tail.unread) == ([(1, b"one"), (2, b"two")], [], 3)
    with file.open("ab") as stream:
        stream.write(b"ee\n" + LONG + b"\n")
    assert tail.more() == [(3, b"three"), (4, LONG)]
    with file.open("ab") as stream:
        stream.write(b"five\n")
    assert (tail.more(), tail.unread) == ([(5, b"five")], 0)


@pytest.mark.parametrize(
    ("lines", "others"),
    [
        ([b"1", b"2"], [b"3", b"4", b"5"]),
        ([b"1", b"2"], [b"1", b"3", b"5"]),
        ([LONG, LONG, b"2"], [LONG, LONG, b"3", b"4"]),
        ([LONG, LONG], [b"3" + LONG, LONG, b"4"]),
        ([b"1", b"2"], [b"1", b"3"]),
        ([b"1", b"2"], [b"3"]),
    ],
)
def test_a_file_written_anew_in_the_same_inode_is_read_from_its_beginning(
    lines: list[bytes], others: list[bytes], tmp_path: Path
) -> None:
    file = tmp_path / "lines"
    tail = LineTail(file)
    for wanted in (lines, others):
        file.write_bytes(b"".join(line + b"\n" for line in wanted))
        assert tail.more() == list(enumerate(wanted, start=1))


def test_a_campaign_that_replaced_another_one_in_its_folder_has_its_own_counts(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, tmp_path / "swept")
    write_seeds(tmp_path / "swept", [seed_line(1), seed_line(2)])
    assert campaign.look()["verdicts"] == {"valid": 2}
    again = [seed_line(1) | {"processor_seconds": 0.25}, seed_line(2, Verdict.INVALID), seed_line(3)]
    write_seeds(tmp_path / "swept", again)
    assert campaign.look()["verdicts"] == {"valid": 2, "invalid": 1}
