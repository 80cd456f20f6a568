"""Every planted bug is caught by a seed of the campaign, and by the promise that the catalogue names."""

from pathlib import Path

import pytest

from upheaval.campaign.seed import finding_line, try_seed
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval_chaos.planted.bug import CATALOGUE, PlantedBug

pytestmark = pytest.mark.pure

QUICK = ("commit-position-goes-back", "vote-not-persisted", "uncommitted-entries-applied")
"""Caught within a few simulated seconds; the others are looked for once a night."""


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, id=bug.name, marks=() if bug.name in QUICK else pytest.mark.nightly) for bug in CATALOGUE],
)
def test_a_seed_catches_it(bug: PlantedBug, tmp_path: Path) -> None:
    outcome = try_seed(bug.seed, bug.name, tmp_path)
    assert outcome.verdict == "invalid"
    # On virtual time it may be seen before any folder is judged. It may break other promises, too.
    caught = finding_line(Verdict.INVALID, Promise(bug.caught_by), "")
    found = any(line.startswith(caught) for line in outcome.findings)
    assert found or outcome.promise == Promise.INVARIANTS, outcome.findings
