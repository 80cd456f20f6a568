"""Each goal holds for a hand-made trace, and not for one that differs in a line or two."""

import pytest

from support.goal_texts import read_texts, traced
from upheaval.campaign.goals.goal import Goal
from upheaval.campaign.goals.table import AREAS, GOALS, reached, unreached
from upheaval.campaign.goals.traced_run import TracedRun
from upheaval.errors import UsageError
from upheaval.records import TraceEvent
from upheaval_node.trace_kinds import TraceKind

TEXTS = read_texts()


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_a_goal_is_reached_by_what_it_means_alone(goal: Goal) -> None:
    assert goal.is_reached(traced(TEXTS[goal.name], "+"))
    assert not goal.is_reached(traced(TEXTS[goal.name], "-"))


def test_every_text_is_of_a_goal_and_names_are_unique() -> None:
    assert set(TEXTS) == {goal.name for goal in GOALS}
    assert len({goal.name for goal in GOALS}) == len({goal.meaning for goal in GOALS}) == len(GOALS)
    assert sum(len(area.goals) for area in AREAS) == len(GOALS)


def test_no_goal_is_reached_by_a_run_in_which_nothing_happened() -> None:
    assert reached(TracedRun.from_traces([[], [], []])) == ()
    assert unreached([goal.name for goal in GOALS[1:]]) == [GOALS[0].name]


def test_the_moves_of_elections_are_counted_without_their_starts() -> None:
    lines = ["0 start", "0 INIT", "0 CANVASS", "0 CLOSED leader=0", "0 INIT", "0 CANVASS", "0 start", "0 INIT"]
    assert traced(lines, "+").moves() == {"INIT>CANVASS": 2, "CANVASS>CLOSED": 1}


def test_an_event_without_its_fields_is_one_clear_error() -> None:
    start = TraceEvent(1, 1, TraceKind.PROCESS_START, {"component": "all"})
    won = TraceEvent(2, 2, TraceKind.ELECTION_STATE, {"state": "LEADER_LOG_REPLICATION"})
    with pytest.raises(UsageError, match="leadership_term_id"):
        reached(TracedRun.from_traces([[start, won]]))
