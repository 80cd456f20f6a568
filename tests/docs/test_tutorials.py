"""Tutorials work as written: their files are made, and their commands run, in the order of the page."""

import re
from pathlib import Path
from typing import Final

import pytest

from support.pages import ROOT, follow, page_blocks

ELSEWHERE: Final = frozenset({"install", "aeron", "spark"})
"""Commands that need more than Python: `tests/aeron` and `tests/pipeline` run those."""
TUTORIALS: Final = sorted(f"docs/tutorials/{path.name}" for path in (ROOT / "docs" / "tutorials").glob("*.md"))


@pytest.mark.heavy
@pytest.mark.parametrize("page", TUTORIALS)
@pytest.mark.parametrize(
    "left_out",
    [pytest.param(ELSEWHERE | {"nightly"}, id="short"), pytest.param(ELSEWHERE, marks=pytest.mark.nightly, id="long")],
)
def test_a_tutorial_works_as_written(page: str, left_out: frozenset[str], tmp_path: Path) -> None:
    output = without_numbers("\n".join(follow(page, tmp_path, left_out)))
    for block in page_blocks("text"):
        if block.page == page:
            lines = [without_numbers(line) for line in block.block.text.splitlines() if line != "..."]
            assert [line for line in lines if line not in output] == [], f"{block.place}: {output}"


def without_numbers(text: str) -> str:
    """Positions and times change with the code."""
    return re.sub(r"\d+", "N", text.strip())
