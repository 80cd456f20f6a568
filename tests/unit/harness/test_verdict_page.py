"""docs/verdicts.md: its captures are what the commands print, and lose nothing at any width or in colour."""

import re

import pytest

import verdict_captures
from upheaval.checkers.verdict import Report, Verdict


def test_the_captures_are_current() -> None:
    text = verdict_captures.PAGE.read_text(encoding="utf-8")
    assert verdict_captures.page_with_captures(text) == text, "run python tools/verdict_captures.py"


@pytest.mark.parametrize("report", verdict_captures.REPORTS, ids=lambda report: report.verdict.text)
@pytest.mark.parametrize("columns", verdict_captures.WIDTHS)
def test_colours_add_escapes_alone(report: Report, columns: int) -> None:
    plain = verdict_captures.capture(report, columns, has_colors=False)
    coloured = verdict_captures.capture(report, columns, has_colors=True)
    assert plain != coloured
    assert re.sub(r"\^\[\[[\d;]*m", "", coloured) == plain
    assert max(map(len, plain.splitlines())) <= columns


def test_a_kept_and_a_broken_run_are_captured() -> None:
    assert [report.verdict for report in verdict_captures.REPORTS] == [Verdict.VALID, Verdict.INVALID]
