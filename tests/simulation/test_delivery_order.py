"""Orders of deliveries: the priorities of channels, and seeds of a campaign that have them."""

from pathlib import Path
from random import Random

import pytest

from upheaval.campaign.memory import FailedSeeds
from upheaval.campaign.searches import DELIVERY, SEARCHES
from upheaval.campaign.seed import SeedOrigin, keep_seed, seed_of_run
from upheaval.campaign.swarm import SLOW, draw_swarm
from upheaval.campaign.swarm_tape import read_swarm, tape_of
from upheaval.cli import fault_commands
from upheaval.cli.main import main
from upheaval.runtimes.simulated.delivery import MESSAGES, DeliveryOrder, DeliveryPriorities
from upheaval.runtimes.simulated.links import Link
from upheaval.runtimes.simulated.network import Fabric
from upheaval.runtimes.simulated.world import World
from upheaval_chaos.exit_status import CommandStatus
from upheaval_node.types import MS, US

LATENCY_MAX_NS = 370 * US
"""Of a drawn link, with its jitter."""
SEEDS = range(1, 41)
SHORT = {"seconds": 4, "rate": 20, "delivery": [{"depth": 3, "spread-ms": 20}]}


def channels(world: World, count: int) -> tuple[Fabric, list[Link]]:
    fabric = Fabric(world)
    return fabric, [fabric.channel("one", "other", str(port)) for port in range(1, count + 1)]


def delays_ms(fabric: Fabric, links: list[Link]) -> list[int]:
    """The delay of the next message on each channel, by its latency."""
    return [(fabric.arrival_ns(link, 1, 0) - fabric.world.now_ns) // MS for link in links]


def test_each_channel_has_a_delay_of_its_own_between_none_and_the_spread() -> None:
    fabric, links = channels(World(1), 5)
    DeliveryPriorities(links, DeliveryOrder(1, 40 * MS), Random(1))
    delays = delays_ms(fabric, links)
    assert sorted(delays) == [0, 10, 20, 30, 40]
    assert delays_ms(fabric, links) == delays


def test_a_change_puts_one_channel_below_all_others() -> None:
    fabric, links = channels(World(1), 4)
    DeliveryPriorities(links, DeliveryOrder(2, 30 * MS), Random(1))
    before = delays_ms(fabric, links)
    for _ in range(MESSAGES):
        after = delays_ms(fabric, links)
    changed = [number for number in range(4) if after[number] != before[number]]
    assert [after[number] for number in changed] == [60]


def test_a_channel_without_an_order_has_the_latency_of_its_link() -> None:
    plain, ordered = channels(World(1), 2), channels(World(1), 2)
    DeliveryPriorities(ordered[1][:1], DeliveryOrder(2, 40 * MS), Random(1))
    assert [link.draw_latency() for link in plain[1][1:]] == [link.draw_latency() for link in ordered[1][1:]]
    assert plain[0].arrival_ns(plain[1][0], 1, 0) - plain[0].world.now_ns < LATENCY_MAX_NS


def test_a_seed_draws_the_same_cluster_with_an_order_and_without_slow_links() -> None:
    for seed in SEEDS:
        drawn, ordered = draw_swarm(seed), SeedOrigin(seed, search=DELIVERY).swarm()
        assert (ordered.delivery is None) == (drawn.members == 1)
        assert SeedOrigin(seed).swarm() == drawn
        if ordered.delivery is not None:
            assert 8 * ordered.delivery.spread_ns <= drawn.election_timeout_ns
            assert list(ordered.faults) == [fault for fault in drawn.faults if fault.kind != SLOW]


def test_an_order_is_read_back_from_its_tape() -> None:
    for seed in SEEDS:
        swarm = SeedOrigin(seed, search=DELIVERY).swarm()
        assert read_swarm(tape_of(swarm).to_fields(), seed)[0] == swarm


def test_a_run_with_an_order_is_the_same_execution_again(tmp_path: Path) -> None:
    first = keep_seed(SeedOrigin(3, tape=SHORT), tmp_path / "first")
    stored = seed_of_run(tmp_path / "first")
    assert stored is not None
    again = keep_seed(stored, tmp_path / "again")
    plain = keep_seed(SeedOrigin(3, tape={**SHORT, "delivery": []}), tmp_path / "plain")
    assert first.stage.digest() == again.stage.digest() == stored.digest
    assert plain.stage.digest() != stored.digest
    assert [run.outcome.verdict for run in (first, plain)] == ["valid", "valid"]


def test_the_command_offers_each_search() -> None:
    assert tuple(SEARCHES) == fault_commands.SEARCHES


def test_a_failed_seed_is_tried_again_with_its_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    FailedSeeds(Path("runs"), None).note(5, has_failed=True)
    ordered = FailedSeeds(Path("runs"), None, DELIVERY)
    ordered.note(3, has_failed=True)
    assert FailedSeeds(Path("runs"), None).seeds == [5]
    assert main(["campaign", "--search", DELIVERY, "--seeds", "3..3"]) == CommandStatus.VALID
    assert "failed last time, tried first: seed 3\n" in capsys.readouterr().err
    assert (ordered.seeds, FailedSeeds(Path("runs"), None).seeds) == ([], [5])


def test_live_members_have_no_order_of_deliveries(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["campaign", "--runtime", "process", "--search", DELIVERY, "--seeds", "1..1"]) == CommandStatus.REFUSED
    assert "--search is for campaigns of the simulated runtime" in capsys.readouterr().err
