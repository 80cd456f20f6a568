"""Variations of a campaign's clusters: what seeds draw, and that each is seen in what the members recorded."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.campaign.as_drawn import prove_variations
from upheaval.campaign.seed import RESTORED, SeedRun
from upheaval.campaign.seed_lines import Fate
from upheaval.campaign.swarm import WRONG_BYTES, Swarm, draw_swarm
from upheaval.campaign.variations import (
    CHECKSUM,
    LONE_FACTOR,
    NO_VARIATIONS,
    SECOND_SERVICE,
    Companion,
    Damage,
    Variation,
    Variations,
)
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.states.standby_notices import NOTICE_NS
from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import play
from upheaval.records import STANDBY, AdminCommand, CompanionConfig, RunFolder
from upheaval.runtimes.simulated.disk import Disk
from upheaval.scenario import AskFor, KeepCompanion
from upheaval_chaos.record import Proof
from upheaval_node.credentials import Verifier
from upheaval_node.types import S

SECONDS = 12
RECORDED = Variations(more_services=(SECOND_SERVICE,), mtu=128, text_length=3000, checksum=CHECKSUM)
NEW = ("silent", "variations", "user", "compatibility", "own_service", "model")
WITHOUT_VARIATIONS = "3810ec39e5e3a2e44ba417c672f2c746c2fa755e79bb48274dd892dd2aac613a"
"""SHA-256 of what seeds 0 to 199 draw beside their variations."""


def test_variations_change_nothing_else_of_a_seed() -> None:
    drawn = [draw_swarm(seed).to_fields() for seed in range(200)]
    rest = [{name: value for name, value in fields.items() if name not in NEW} for fields in drawn]
    assert hashlib.sha256(json.dumps(rest).encode()).hexdigest() == WITHOUT_VARIATIONS


def test_seeds_together_draw_every_variation_and_none() -> None:
    swarms = [draw_swarm(seed) for seed in range(200)]
    counts = Counter(kind for swarm in swarms for kind in swarm.variations.drawn())
    assert counts.keys() == set(Variation)
    assert max(counts.values()) < len(swarms) / 2
    assert any(not list(swarm.variations.drawn()) for swarm in swarms)


def test_some_standbys_live_long_enough_after_a_snapshot_for_members_to_hear_of_it() -> None:
    """Others are ended soon after each: whether members hear of it then is not judged."""
    swarms = [draw_swarm(seed) for seed in range(200)]
    drawn = [(swarm, swarm.variations.companion) for swarm in swarms]
    of_standbys = [(swarm, one) for swarm, one in drawn if one is not None and one.config.kind == STANDBY]
    whole = [(swarm, one) for swarm, one in of_standbys if one.starts == 1 and len(one.steps) == 2]
    assert 0 < len(whole) < len(of_standbys)
    for swarm, one in whole:
        asked_ns, step = one.steps[-1]
        assert step == AskFor(AdminCommand.STANDBY_SNAPSHOT)
        # The load goes on for 1.1 session time-outs.
        assert 40 * S <= asked_ns < swarm.seconds * S + 3 * S - NOTICE_NS


def test_a_lone_member_has_more_load_than_others() -> None:
    for swarm in map(draw_swarm, range(50)):
        factor = LONE_FACTOR if swarm.members == 1 else 1
        assert swarm.workload().rate == swarm.rate * factor == swarm.plain().workload().rate * factor


def three() -> Swarm:
    """Three members without faults, for a short run."""
    drawn = next(swarm for swarm in (draw_swarm(seed, SECONDS) for seed in range(20)) if swarm.members == 3)
    return replace(drawn, service="workbench", rate=40, faults=(), ending="", variations=NO_VARIATIONS)


def a_run(variations: Variations, folder: Path) -> tuple[Swarm, RunFolder]:
    swarm = replace(three(), variations=variations)
    run = SeedRun(swarm, folder)
    play(swarm.scenario(), run.stage, lambda _: None, run.driver)
    run.cluster.write()
    return swarm, run.cluster.run


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Variation, Proof]:
    swarm, run = a_run(RECORDED, tmp_path_factory.mktemp("varied"))
    return prove_variations(run, swarm.members, RECORDED)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Mapping[Variation, Proof]:
    """Of a cluster that was not made as it was drawn."""
    swarm, run = a_run(NO_VARIATIONS, tmp_path_factory.mktemp("plain"))
    return prove_variations(run, swarm.members, RECORDED)


KEPT = Companion(
    CompanionConfig("standby-0", "FOLLOWER"),
    (
        (S, KeepCompanion("start", "FOLLOWER", "standby-0")),
        (4 * S, AskFor(AdminCommand.STANDBY_SNAPSHOT)),
        (5 * S, KeepCompanion("kill", name="standby-0")),
        (6 * S, KeepCompanion("start", "FOLLOWER", "standby-0")),
    ),
    is_restored=True,
)


def test_a_standby_shows_in_its_files_and_a_cluster_from_them_in_its_run(tmp_path: Path) -> None:
    run = SeedRun(replace(three(), variations=Variations(companion=KEPT, checksum=CHECKSUM)), tmp_path / "run")
    outcome = run.run()
    assert (outcome.verdict, outcome.detail) == ("valid", "")
    proved = {(kind, Fate.PROVED) for kind in (Variation.STANDBY, Variation.RESTORE, Variation.CHECKSUMS)}
    assert set(outcome.variation_fates()) == proved
    restored = verify_run(tmp_path / "run" / RESTORED)
    assert restored.verdict is Verdict.VALID
    assert "2 lives of 2" in outcome.variations[Variation.STANDBY].evidence
    oftener = replace(KEPT, steps=(*KEPT.steps, (7 * S, KeepCompanion("start", name="standby-0"))))
    assert not prove_variations(run.cluster.run, 3, Variations(companion=oftener))[Variation.STANDBY].holds


def test_a_restored_cluster_that_lacks_what_was_acknowledged_makes_its_seed_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its members begin with nothing, its history and what it says of its origin do not."""
    monkeypatch.setattr(Disk, "put", lambda *_: None)
    outcome = SeedRun(replace(three(), variations=Variations(companion=KEPT)), tmp_path / "run").run()
    assert outcome.verdict == "invalid"
    assert outcome.detail.startswith("restored from standby-0: ")
    assert not outcome.variations[Variation.RESTORE].holds


def test_wrong_bytes_are_refused_and_counted_among_the_faults(tmp_path: Path) -> None:
    damage = Damage(4 * S, S, member=1, percent=40)
    swarm = replace(three(), sync_level=1, variations=Variations(checksum=CHECKSUM, damages=(damage,)))
    outcome = SeedRun(swarm, tmp_path / "run").run()
    assert (outcome.verdict, outcome.detail) == ("valid", "")
    assert outcome.faults[WRONG_BYTES] == {Fate.PLANNED: 1, Fate.PROVED: 1}


def test_wrong_bytes_are_drawn_only_where_they_are_promised_to_be_noticed() -> None:
    drawn = [swarm for swarm in map(draw_swarm, range(200)) if swarm.variations.damages]
    assert drawn
    assert all(swarm.sync_level and swarm.variations.checksum for swarm in drawn)


GUARDED = Variations(has_credentials=True, companion=KEPT)


def test_with_credentials_strangers_are_refused_and_everybody_else_is_served(tmp_path: Path) -> None:
    outcome = SeedRun(replace(three(), variations=GUARDED), tmp_path / "run").run()
    assert (outcome.verdict, outcome.detail) == ("valid", "")
    assert (Variation.CREDENTIALS, Fate.PROVED) in outcome.variation_fates()
    assert verify_run(tmp_path / "run").finding(Promise.ONLY_CREDENTIALS).verdict is Verdict.VALID


def test_a_wrong_secret_that_is_let_in_makes_its_seed_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Verifier, "accepts", lambda *_: True)
    swarm = replace(three(), variations=Variations(has_credentials=True))
    outcome = SeedRun(swarm, tmp_path / "run").run()
    assert (outcome.verdict, outcome.promise) == ("invalid", Promise.ONLY_CREDENTIALS)
    assert outcome.detail == "attempts.jsonl: a client that showed a wrong secret of a known user was let in"


@pytest.mark.parametrize("kind", list(RECORDED.drawn()))
def test_a_variation_shows_in_what_was_recorded_and_only_then(
    kind: Variation, varied: Mapping[Variation, Proof], plain: Mapping[Variation, Proof]
) -> None:
    assert varied[kind].holds, varied[kind]
    assert not plain[kind].holds, plain[kind]


def test_a_seed_that_is_not_what_it_drew_is_unknown(tmp_path: Path) -> None:
    """Its members are built without the checksums that its swarm says they have."""
    honest = replace(draw_swarm(1, SECONDS).plain(), faults=(), ending="", rate=40)
    run = SeedRun(honest, tmp_path / "run")
    run.swarm = run.outcome.swarm = replace(honest, variations=Variations(checksum=CHECKSUM))
    outcome = run.run()
    assert (outcome.verdict, outcome.promise) == ("unknown", Promise.AS_DRAWN)
    assert verify_run(tmp_path / "run").finding(Promise.AS_DRAWN).detail == outcome.detail
    assert list(outcome.variation_fates()) == [(Variation.CHECKSUMS, Fate.UNSEEN)]
