"""The whole set of forged runs: what the verdict makes of each is what the page shows."""

from pathlib import Path

import pytest

import tamper_table
from upheaval.tamper.trial import Outcome


@pytest.mark.nightly
def test_the_page_shows_what_comes_of_every_edit(tmp_path: Path) -> None:
    trials = tamper_table.try_all(tamper_table.make_runs(tmp_path, print), print)
    assert [trial.edit.name for trial in trials if trial.outcome is Outcome.DOES_NOT_APPLY] == []
    text = tamper_table.PAGE.read_text(encoding="utf-8")
    assert tamper_table.page_with_table(text, trials) == text
