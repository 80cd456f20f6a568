"""Seeds whose executions are as they should be, and look wrong at first sight: each is judged valid."""

from pathlib import Path

import pytest

from upheaval.campaign.seed import run_seed


@pytest.mark.parametrize(
    "seed",
    [
        # Of sessions that several leaders close: hand-made runs show these two kinds, too.
        pytest.param(
            3_100_020,
            id="a paused leader wakes and closes sessions in its own term",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            3_100_713,
            id="a deposed leader closes sessions whose opening it had not committed",
            marks=pytest.mark.nightly,
        ),
        pytest.param(4_100_275, id="a leader takes a snapshot and ends before it reaches its clients"),
        pytest.param(5_200_049, id="a member needs no room after its disk was full"),
        pytest.param(7_000_107, id="a standby ends before it takes a snapshot"),
        pytest.param(7_000_148, id="a paused member ends where its disk changes, and the next process runs"),
        pytest.param(5_100_260, id="a client knows a session whose opening its cut-off leader did not commit"),
    ],
)
def test_a_cluster_that_kept_its_promises_is_not_accused(seed: int, tmp_path: Path) -> None:
    outcome = run_seed(seed, None, tmp_path)
    assert (outcome.verdict, outcome.findings) == ("valid", [])
