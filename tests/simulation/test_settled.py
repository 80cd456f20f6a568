"""Agents that say that another turn would do nothing are held to it: in whole seeds, each of them has that turn."""

from collections import Counter
from pathlib import Path

import pytest

from upheaval.campaign.seed import try_seed
from upheaval_node.turns import Turns, _Turn
from upheaval_node.types import Now

pytestmark = pytest.mark.pure


@pytest.mark.parametrize("seed", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_another_turn_of_an_agent_that_is_settled_does_nothing(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_turn = Turns._take_turn
    settled: Counter[str] = Counter()
    did_more: list[str] = []

    def twice(turns: Turns, turn: _Turn, now: Now) -> int:
        work = take_turn(turns, turn, now)
        bell = turn.bell
        if work and bell is not None and bell.is_settled and not bell.covers_all:
            name = type(turn.agent).__name__
            settled[name] += 1
            if turn.agent.do_work(now):
                did_more.append(f"{name} at {now.ns}")
        return work

    monkeypatch.setattr(Turns, "_take_turn", twice)
    assert try_seed(seed, None, tmp_path).is_valid
    assert did_more == []
    assert min(settled["ConsensusModule"], settled["Archive"]) > 1000
