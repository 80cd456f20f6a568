"""The rules of a scenario's members: in its text, on the systems that have them, in the plan of a seed."""

from pathlib import Path

import pytest

from upheaval.campaign.scenario_text import scenario_texts
from upheaval.campaign.seed import SeedOrigin
from upheaval.errors import UsageError
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.runtime_names import PROCESS, SIMULATED
from upheaval.scenario import load_scenario, parse_scenario, with_rules
from upheaval_node.cluster.rules import rules_named
from upheaval_node.errors import UsageError as NodeUsageError

PLAIN = "title Some\nworkload rate=50\nwait operations 1\n"


def test_the_text_of_a_scenario_has_its_rules() -> None:
    changed = with_rules(parse_scenario(PLAIN, name="some", where="some"), "aeron")
    assert changed.text == "title Some\ncluster compatibility=aeron\nworkload rate=50\nwait operations 1\n"
    again = parse_scenario(changed.text, name="some", where="some")
    assert again.cluster == changed.cluster
    other = with_rules(again, "E3,E8")
    assert "cluster compatibility=E3,E8\n" in other.text
    assert parse_scenario(other.text, name="some", where="some").cluster.compatibility == "E3,E8"


def test_members_of_another_system_have_their_own_rules() -> None:
    changed = with_rules(parse_scenario(PLAIN, name="some", where="some"), "aeron")
    assert changed.on_system("upheaval").cluster.compatibility == "aeron"
    assert changed.on_system("aeron").cluster.compatibility == "upheaval"


def test_unknown_rules_are_an_error_of_their_line() -> None:
    with pytest.raises(UsageError, match=r"some:2:.*unknown compatibility 'aerom'.*did you mean"):
        parse_scenario("title Some\ncluster compatibility=aerom\nwait operations 1\n", name="some", where="some")


@pytest.mark.parametrize(("value", "named"), [("aeron,E3", "aeron"), ("E3,upheaval", "upheaval")])
def test_all_rules_beside_a_row_are_an_error_that_says_so(value: str, named: str) -> None:
    with pytest.raises(NodeUsageError, match=f"^compatibility '{value}': {named} is no row, so write it alone$"):
        rules_named(value)


def test_the_rules_of_a_seed_are_those_of_its_members_and_of_its_text() -> None:
    swarm = SeedOrigin(1, compatibility="aeron").swarm()
    assert swarm.settings().cluster.compatibility == "aeron"
    assert all(" compatibility=aeron\n" in text for text in scenario_texts(swarm, is_watched=True))
    assert not any("compatibility" in text for text in scenario_texts(SeedOrigin(1).swarm(), is_watched=True))


def test_the_simulation_waits_for_a_message_of_a_member(tmp_path: Path) -> None:
    assert load_scenario("aeron-earlier-term").runtimes == (SIMULATED, PROCESS)
    text = (
        "title Some\nworkload rate=50\nwait operations 5\nbegin dead kill leader\nwait sent Vote vote=true\nend dead\n"
    )
    scenario = parse_scenario(f"{text}wait leader\nwait operations 5\n", name="some", where="some")
    said: list[str] = []
    run_scenario(scenario, SimulatedStage(scenario, 1, tmp_path / "run"), runtime=SIMULATED, seed=1, say=said.append)
    assert any(line.startswith("Vote vote=true from ") and line.endswith("is sent") for line in said)
