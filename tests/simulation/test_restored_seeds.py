"""Seeds whose companion's files start another cluster: its failure is that of the seed, and its evidence stays."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.campaign import seed as seeds
from upheaval.campaign.again import as_recorded
from upheaval.campaign.seed import RESTORED, SeedOrigin, SeedRun, keep_seed
from upheaval.campaign.tries import Try
from upheaval.campaign.variations import Variation
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.errors import UnknownOutcome
from upheaval.execution.run import play
from upheaval.execution.stage import Stage
from upheaval.operations.restore import Source
from upheaval.operations.simulated_restore import restore_into
from upheaval.records import Outcome
from upheaval.runtimes.simulated.cluster import SimulatedCluster
from upheaval.runtimes.simulated.errors import ProcessFailed
from upheaval.scenario import Scenario
from upheaval_chaos.driver import FaultDriver

SEED = 46
"""Its cluster has a companion, from whose files another one starts."""


def kept(folder: Path) -> SeedRun:
    run = keep_seed(SeedOrigin(SEED), folder)
    companion = run.swarm.variations.companion
    assert companion is not None
    assert companion.is_restored
    return run


def test_a_restored_cluster_that_ends_early_is_judged_and_leaves_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end_early(
        scenario: Scenario, stage: Stage, say: Callable[[str], None], driver: FaultDriver | None = None
    ) -> None:
        play(scenario, stage, say, driver)
        if scenario.name.endswith(RESTORED):
            raise ProcessFailed("member 0 ended: no such entry")

    monkeypatch.setattr(seeds, "play", end_early)
    run = kept(tmp_path / "run")
    report = verify_run(tmp_path / "run" / RESTORED)
    assert report.finding(Promise.RUN_ENDED).detail == "member 0 ended: no such entry"
    assert report.finding(Promise.BACKED_UP).verdict is Verdict.VALID
    assert (tmp_path / "run" / RESTORED / "member-0" / "trace.jsonl").is_file()
    assert run.outcome.verdict == "unknown"
    assert {one.promise for one in run.outcome.fingerprints} == {Promise.RUN_ENDED, Promise.AS_DRAWN}
    assert "member 0 ended" in run.outcome.variations[Variation.RESTORE].evidence


def test_a_seed_is_as_invalid_as_the_cluster_restored_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For every command that reads the folder."""

    def lose(cluster: SimulatedCluster, origin: Source) -> None:
        """An operation that the restored members do not have."""
        restore_into(cluster, origin)
        last = next(operation for operation in reversed(cluster.history) if operation.outcome is Outcome.OK)
        cluster.history.append(replace(last, id=cluster.first_id))
        cluster.first_id += 1

    monkeypatch.setattr(seeds, "restore_into", lose)
    folder = tmp_path / "run"
    run = kept(folder)
    assert (run.outcome.verdict, run.outcome.promise) == ("invalid", Promise.ACKNOWLEDGED_NOT_LOST)
    assert verify_run(folder / RESTORED).finding(Promise.ACKNOWLEDGED_NOT_LOST).verdict is Verdict.INVALID
    assert main(["verify", str(folder), "--json"]) == 1
    promises = {each["promise"]: each for each in json.loads(capsys.readouterr().out)["promises"]}
    assert promises[Promise.ACKNOWLEDGED_NOT_LOST]["verdict"] == promises[Promise.EVIDENCE_SEALED]["verdict"] == "valid"
    assert promises[Promise.INVARIANTS]["detail"].startswith("acknowledged-not-lost in the cluster restored from ")
    assert main(["explain", str(folder)]) == 0
    assert "acknowledged-not-lost in the cluster restored from " in capsys.readouterr().out
    assert main(["replay", str(folder), "--dir", str(tmp_path / "again")]) == 1
    assert "this was the same execution" in capsys.readouterr().err
    lost = next(one for one in run.outcome.fingerprints if one.is_broken)
    again = as_recorded(Try((lost,), digest="of a later version"), run.stage.digest(), folder)
    assert again.fingerprints == (lost,)
    with pytest.raises(
        UnknownOutcome, match="failed with invalid acknowledged-not-lost, but fails with invalid invariants"
    ):
        as_recorded(Try((replace(lost, promise=Promise.INVARIANTS),)), run.stage.digest(), folder)
