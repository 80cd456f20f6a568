"""Folders of campaigns that were never run."""

import json
from collections import Counter
from pathlib import Path

from upheaval.campaign.seed import SeedOutcome
from upheaval.campaign.seed_lines import Fate
from upheaval.campaign.swarm import draw_swarm
from upheaval.checkers.verdict import Verdict
from upheaval.records import Json


def seed_line(seed: int, verdict: Verdict = Verdict.VALID) -> dict[str, Json]:
    """As a campaign writes it of a seed that shows enough to be counted."""
    outcome = SeedOutcome(draw_swarm(1), verdict.text, seconds=70.5, operations=600, elections=2)
    outcome.faults = {"kill-leader": Counter({Fate.PLANNED: 4, Fate.PROVED: 3, Fate.UNSEEN: 1})}
    outcome.moves = Counter({"CANVASS>NOMINATE": 5})
    outcome.goals = ("leader-silent",)
    return {**outcome.to_fields(), "seed": seed}


def write_seeds(folder: Path, lines: list[dict[str, Json]]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "seeds.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
