"""Campaigns of a few seeds as they are written: the lines of `seeds.jsonl`, in the form of simulated ones."""

import json
from collections import Counter
from pathlib import Path

from upheaval.campaign.campaign import line_of
from upheaval.campaign.seed import SeedOutcome
from upheaval.campaign.seed_lines import Fate
from upheaval.campaign.swarm import draw_swarm
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.records import Json
from upheaval_pipeline.campaigns import seeds_file


def line(seed: int, version: str, verdict: Verdict = Verdict.VALID) -> dict[str, Json]:
    """What a campaign writes of a simulated seed that shows enough to be counted."""
    outcome = SeedOutcome(draw_swarm(1), verdict.text, seconds=70.5, operations=600, elections=2)
    if verdict is not Verdict.VALID:
        outcome.promise, outcome.detail = str.__str__(Promise.VOTES_KEPT), "member 1 voted twice"
    outcome.faults = {"kill-leader": Counter({Fate.PLANNED: 4, Fate.PROVED: 3, Fate.UNSEEN: 1}), "cut": Counter()}
    outcome.moves = {"CANVASS>NOMINATE": 5}
    return {**line_of(outcome), "seed": seed, "version": version}


def written(folder: Path, lines: list[dict[str, Json]]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "seeds.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    file = seeds_file(folder)
    assert file is not None
    return file


def some(version: str, count: int, bad: int) -> list[dict[str, Json]]:
    """The last ones are invalid."""
    return [line(n, version, Verdict.INVALID if n >= count - bad else Verdict.VALID) for n in range(count)]
