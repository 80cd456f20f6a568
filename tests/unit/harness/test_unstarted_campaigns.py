"""Live campaigns and searches whose clusters never start because a member fails in its election."""

from functools import partial
from pathlib import Path

import pytest

from support.unstarted import ELECTION, ENDED, START, Unstarted, end
from upheaval.campaign import live, text_tries
from upheaval.campaign.live import LiveCampaign, run_live
from upheaval.campaign.text_tries import TextOrigin, run_live_text
from upheaval.campaign.unstarted import UNSTARTED_MAX
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.errors import HarnessError, UnknownOutcome
from upheaval.runtime_names import PROCESS
from upheaval.system import CLUSTER_OF_THREE

FAILED = [START, ELECTION, end(7)]


def unstarted(*options: object, error: HarnessError = ENDED) -> Unstarted:
    (folder,) = (option for option in options if isinstance(option, Path))
    return Unstarted(folder, FAILED if error is ENDED else FAILED[:2], error)


def test_seeds_of_members_that_fail_in_their_first_election_are_invalid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a run has no history. More of them in a row than clusters that do not start."""
    monkeypatch.setattr(live, "LiveStage", unstarted)
    campaign = LiveCampaign(PROCESS, CLUSTER_OF_THREE.system, tmp_path)
    outcomes = list(run_live(campaign, range(UNSTARTED_MAX + 1)))
    assert [outcome.verdict for outcome in outcomes] == [Verdict.INVALID] * (UNSTARTED_MAX + 1)
    assert all(Promise.NO_UNEXPLAINED_END.sentence in " ".join(outcome.finding_lines()) for outcome in outcomes)
    assert [(outcome.operations, outcome.folder) for outcome in outcomes[:1]] == [(0, str(tmp_path / "seed-0"))]


def test_a_seed_without_a_leader_keeps_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    error = UnknownOutcome("no leader: member 0 in INIT")
    monkeypatch.setattr(live, "LiveStage", partial(unstarted, error=error))
    (outcome,) = run_live(LiveCampaign(PROCESS, CLUSTER_OF_THREE.system, tmp_path), [1])
    assert outcome.verdict is Verdict.UNKNOWN
    assert any(str(error) in line for line in outcome.finding_lines())


def test_a_try_of_members_that_fail_in_their_first_election_has_its_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tries, "LiveStage", unstarted)
    origin = TextOrigin("starts", 1, runtime=PROCESS)
    tried = run_live_text(origin, "title It starts\ncluster members=1\nwait operations 1\n", tmp_path / "run")
    assert tried.operations == 0
    assert tried.fingerprints[0].promise == Promise.NO_UNEXPLAINED_END
