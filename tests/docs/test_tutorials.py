"""Tutorials work as written: their files are made, and their commands run, in the order of the page."""

from pathlib import Path
from typing import Final

import pytest

from support.pages import ROOT, follow, page_blocks

ELSEWHERE: Final = frozenset({"install", "aeron", "spark"})
"""Commands that need more than Python: `tests/aeron` and `tests/pipeline` run those."""
TUTORIALS: Final = sorted(f"docs/tutorials/{path.name}" for path in (ROOT / "docs" / "tutorials").glob("*.md"))
PRINTED: Final = {
    "docs/tutorials/python-service.md": (" 1 passed", " 1 failed", "a snapshot equals", "time.time(), at stock.py:16"),
    "docs/tutorials/failing-seed.md": ("149 invalid timers-kept",),
}
"""What a page says of its commands."""


@pytest.mark.heavy
@pytest.mark.parametrize("page", TUTORIALS)
@pytest.mark.parametrize(
    "left_out",
    [pytest.param(ELSEWHERE | {"nightly"}, id="short"), pytest.param(ELSEWHERE, marks=pytest.mark.nightly, id="long")],
)
def test_a_tutorial_works_as_written(page: str, left_out: frozenset[str], tmp_path: Path) -> None:
    output = "\n".join(follow(page, tmp_path, left_out))
    for text in PRINTED.get(page, ()):
        assert text in output


def test_outputs_on_the_pages_are_those_that_are_checked() -> None:
    shown = {block.page: block.block.text for block in page_blocks("text") if block.page in TUTORIALS}
    assert shown == {"docs/tutorials/failing-seed.md": "149 invalid timers-kept"}
