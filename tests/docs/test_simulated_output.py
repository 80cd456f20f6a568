"""What pages show of simulated runs is what these print, to the last number: a seed gives one execution."""

from pathlib import Path

import pytest

from support.page_commands import Block, run_block
from support.pages import page_blocks

PLANTED = "upheaval run leader-left-alone --planted commit-without-a-quorum || test $? = 1"
KILLED = "upheaval run leader-killed 2>&1"
UNTIL = """
upheaval run leader-isolated-blackhole --runtime simulated --seed 7 --dir runs/7 2> run.log
upheaval replay runs/7 --until 5
"""


@pytest.mark.parametrize(
    ("page", "first", "commands"),
    [
        ("docs/planted.md", "verdict: invalid", PLANTED),
        ("docs/tutorials/first-verdict.md", "verdict: invalid", PLANTED),
        ("docs/scenarios.md", "[  0.1 s] member 0 leads", KILLED),
        ("docs/simulation.md", "5.000 s after the start of the run", UNTIL),
    ],
    ids=["planted", "first-verdict", "scenarios", "simulation"],
)
def test_a_page_shows_what_a_seed_prints(page: str, first: str, commands: str, tmp_path: Path) -> None:
    (shown,) = (one for one in page_blocks("text") if one.page == page and one.block.text.startswith(first))
    output = in_words(run_block(page, Block(shown.block.line, "sh", commands), tmp_path))
    lines = [line for line in shown.block.text.splitlines() if line != "..." and not line.startswith("/home/me/")]
    assert [line for line in lines if in_words(line) not in output] == [], output


def in_words(text: str) -> str:
    """Without the breaks of lines, which depend on the terminal."""
    return " ".join(text.split())
