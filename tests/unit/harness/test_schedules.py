"""Schedules that are drawn for live clusters: each a scenario that the system can run, the same for a seed for ever."""

from hashlib import sha256

import pytest

from upheaval.campaign.schedules import draw_schedule, kind_of
from upheaval.execution.links import require_link_faults
from upheaval.runtime_names import PROCESS
from upheaval.scenario import GiveCommand, Scenario
from upheaval.system import system_named

SEEDS = range(1, 301)
SYSTEMS = ("upheaval", "aeron")


def drawn(seed: int, system: str) -> Scenario:
    return draw_schedule(seed, system, has_streams=system_named(system).has_streams)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_schedule_runs_on_processes_and_breaks_what_the_system_has(system: str) -> None:
    for seed in SEEDS:
        scenario = drawn(seed, system)
        require_link_faults(system_named(system), scenario.link_faults)
        assert PROCESS in scenario.runtimes
        assert scenario.planned_faults
        assert scenario.cluster.system == system


@pytest.mark.parametrize(
    ("system", "kinds"),
    [
        ("upheaval", {"isolate", "one-way", "channel", "clients", "slow", "reset"}),
        ("aeron", {"isolate", "one-way", "channel", "clients", "slow", "lose", "duplicate", "disorder"}),
    ],
)
def test_all_kinds_of_faults_and_orders_are_drawn(system: str, kinds: set[str]) -> None:
    schedules = [drawn(seed, system) for seed in SEEDS]
    assert {kind_of(name) for each in schedules for name in each.planned_faults} == kinds | {
        "kill",
        "stop",
        "pause",
        "restart",
    }
    given = {step.command for each in schedules for step in each.steps if isinstance(step, GiveCommand)}
    assert given == {"snapshot", "shutdown", "abort", "start"}


def test_a_fault_of_members_ends_before_that_of_links_that_it_began_in() -> None:
    overlaps = 0
    for seed in SEEDS:
        there: list[str] = []
        for line in drawn(seed, "aeron").text.splitlines():
            match line.split():
                case ["inject", name, *_]:
                    there.append(name)
                    overlaps += len(there) == 2
                case ["heal", name]:
                    assert there.pop() == name
        assert not there
    assert overlaps > 100


def test_a_seed_is_the_same_schedule_for_ever() -> None:
    text = "".join(drawn(seed, system).text for seed in SEEDS for system in SYSTEMS)
    assert sha256(text.encode()).hexdigest() == "bd109b6091e21ae830f6b4b5171ecae562a24f8cc298de2e68cd7f0b0cd4d83a"
