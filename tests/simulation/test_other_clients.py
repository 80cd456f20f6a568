"""Clients that a load is not, in a campaign's cluster: idle ones, hasty ones, and ones that know a single member."""

from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.campaign.seed import SeedRun
from upheaval.campaign.swarm import Swarm, draw_swarm
from upheaval.campaign.swarm_tape import read_swarm, tape_of
from upheaval.campaign.variations import NO_VARIATIONS, Variation, Variations
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report, Verdict
from upheaval.records import ConnectAnswer, Outcome, SessionCause
from upheaval.workload.other_clients import FIRST_ID, REQUESTS, OtherClient

SECONDS = 12
MEMBERS = 3


def swarm_with(*kinds: OtherClient, has_faults: bool = False) -> Swarm:
    """A short seed with clients of these kinds."""
    drawn = next(swarm for swarm in (draw_swarm(seed, SECONDS) for seed in range(100)) if swarm.members == MEMBERS)
    faults = drawn.faults if has_faults else ()
    return replace(drawn, faults=faults, ending="", silent=0, variations=Variations(other_clients=kinds))


def judged(run: SeedRun) -> Report:
    run.run()
    assert run.report is not None
    return run.report


def test_they_use_the_cluster_and_it_keeps_its_promises(tmp_path: Path) -> None:
    run = SeedRun(swarm_with(*OtherClient, has_faults=True), tmp_path / "run")
    report = judged(run)
    assert report.verdict is Verdict.VALID, report.findings
    assert run.outcome.variations[Variation.OTHER_CLIENTS].holds
    attempts = list(run.cluster.run.read_attempts())
    assert {attempt.member for attempt in attempts if attempt.answer is ConnectAnswer.ADMITTED} == set(range(MEMBERS))
    operations = [operation for operation in run.cluster.history if operation.id >= FIRST_ID]
    assert {operation.outcome for operation in operations} == {Outcome.UNKNOWN}
    assert len(operations) >= REQUESTS
    idle = [end for end in run.cluster.run.read_session_ends() if end.cause is SessionCause.OPEN and end.sent_ns]
    assert len(idle) == 1


@pytest.mark.pure
@pytest.mark.parametrize(
    ("kind", "bug"),
    [
        (OtherClient.IDLE, "keep-alives-ignored"),
        (OtherClient.HASTY, "close-requests-ignored"),
        (OtherClient.ONE_ENDPOINT, "redirect-missing"),
    ],
)
def test_each_kind_shows_a_bug_that_no_other_client_meets(kind: OtherClient, bug: str, tmp_path: Path) -> None:
    report = judged(SeedRun(swarm_with(kind), tmp_path / "run", bug))
    assert report.finding(Promise.CLIENTS_IN_TIME).verdict is Verdict.INVALID


def test_a_tape_has_the_kinds_that_were_drawn() -> None:
    drawn = [draw_swarm(seed) for seed in range(60)]
    kinds = {swarm.variations.other_clients for swarm in drawn}
    assert () in kinds
    assert {kind for several in kinds for kind in several} == set(OtherClient)
    for swarm in drawn:
        again, _ = read_swarm(tape_of(swarm).to_fields(), swarm.seed)
        assert again.variations.other_clients == swarm.variations.other_clients
    assert NO_VARIATIONS.other_clients == ()
