"""`python -m bench.arms`: the ways to search of a campaign, compared by the goals that they reach in equal processor
seconds.

Clusters of three members without variations play 30 seconds of a small load, and no folder is judged: so more runs fit
into a budget. The repeats of all arms begin at the same seeds. Each repeat is a line of `bench/arms.jsonl`, and one
whose line is there is not run again.
"""

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import inf
from pathlib import Path
from statistics import median, median_high
from typing import Any, Final

from upheaval.campaign.goals.table import GOALS, reached
from upheaval.campaign.goals.traced_run import TracedRun
from upheaval.campaign.searches import SEARCHES, UNIFORM
from upheaval.campaign.seed import SeedRun
from upheaval.campaign.swarm import Swarm, draw_swarm
from upheaval.errors import HarnessError
from upheaval.execution.run import play
from upheaval.records import RunFolder, owned_folder

ROOT: Final = Path(__file__).resolve().parents[1]
FIGURES: Final = ROOT / "bench" / "arms.jsonl"
GOALS_OF_SEEDS: Final = ROOT / "docs" / "goals.json"
FIRST_SEED: Final = 35_000_000
SEEDS_APART: Final = 10_000
MEMBERS: Final = 3
SECONDS: Final = 30
"""The load of a run, in seconds of virtual time."""
RATE: Final = 5
SELDOM: Final = 0.10


@dataclass(slots=True)
class Repeat:
    """The figures of one repeat of an arm: each goal with the number of runs that reached it, and the processor seconds
    until one first did.
    """

    arm: str
    repeat: int
    budget_s: float
    runs: int = 0
    processor_s: float = 0.0
    unfinished: int = 0
    goals: dict[str, tuple[int, float]] = field(default_factory=dict)

    def add(self, goals: Sequence[str], spent_s: float) -> None:
        """Count a run in."""
        self.runs += 1
        self.processor_s = round(self.processor_s + spent_s, 2)
        for goal in goals:
            count, first_s = self.goals.get(goal, (0, self.processor_s))
            self.goals[goal] = count + 1, first_s


def run_repeat(arm: str, repeat: int, budget_s: float) -> Repeat:
    """Run an arm until its budget is spent."""
    figures, seed = Repeat(arm, repeat, budget_s), FIRST_SEED + repeat * SEEDS_APART
    with owned_folder("bench") as scratch:
        while figures.processor_s < budget_s:
            begin, seed = time.process_time(), _next_seed(seed)
            swarm = draw(arm, seed)
            run = SeedRun(swarm, scratch / f"run-{seed}")
            try:
                play(swarm.scenario(), run.stage, lambda _: None, run.driver)
            except HarnessError:
                figures.unfinished += 1
            finally:
                run.stage.close()
            goals = reached(TracedRun.of(RunFolder(run.cluster.run.path, at_rest=True)))
            figures.add(goals, time.process_time() - begin)
            shutil.rmtree(run.cluster.run.path, ignore_errors=True)
            seed += 1
    return figures


def _next_seed(seed: int) -> int:
    """The first seed from this one on that draws three members."""
    while draw_swarm(seed, SECONDS).members != MEMBERS:
        seed += 1
    return seed


def draw(arm: str, seed: int) -> Swarm:
    """The cluster of a seed."""
    return SEARCHES[arm](replace(draw_swarm(seed, SECONDS).plain(), rate=RATE))


@dataclass(frozen=True)
class Arm:
    """All repeats of one arm."""

    name: str
    repeats: Sequence[dict[str, Any]]

    @cached_property
    def runs(self) -> int:
        return sum(one["runs"] for one in self.repeats)

    @cached_property
    def processor_s(self) -> float:
        return sum(one["processor_s"] for one in self.repeats)

    def witnesses(self, goal: str) -> int:
        """The runs that reached a goal."""
        return sum(one["goals"].get(goal, (0,))[0] for one in self.repeats)

    def first_s(self, goal: str) -> float:
        """The median time of the first run that reached a goal; a repeat without one counts as longer than any."""
        return median_high([one["goals"][goal][1] if goal in one["goals"] else inf for one in self.repeats])


def table(figures: Sequence[dict[str, Any]], of_seeds: dict[str, Any]) -> str:
    """A line for each arm. Rare goals are those that at most one seed of the page of goals reached."""
    arms = [
        Arm(name, [one for one in figures if one["arm"] == name]) for name in dict.fromkeys(o["arm"] for o in figures)
    ]
    uniform = next(arm for arm in arms if arm.name == UNIFORM)
    names = [goal.name for goal in GOALS]
    rare = [name for name in names if of_seeds["goals"].get(name, 0) <= 1]
    usual = [name for name in names if uniform.first_s(name) < inf]
    seldom = [name for name in names if 0 < uniform.witnesses(name) / uniform.runs < SELDOM]
    titles = ("arm", "repeats", "runs", "goals of a repeat", f"of {len(rare)} rare ones", "all", "first finds", "lost")
    lines = [f"| {' | '.join((*titles, 'witnesses'))} |", "|---" * (len(titles) + 1) + "|"]
    for arm in arms:
        rates = [
            arm.witnesses(name) / arm.processor_s / (uniform.witnesses(name) / uniform.processor_s) for name in seldom
        ]
        cells = (
            arm.name,
            len(arm.repeats),
            arm.runs,
            ", ".join(str(len(one["goals"])) for one in arm.repeats),
            ", ".join(str(sum(name in one["goals"] for name in rare)) for one in arm.repeats),
            sum(arm.witnesses(name) > 0 for name in rare),
            f"{median([arm.first_s(name) / uniform.first_s(name) for name in usual]):.2f} times",
            f"{sum(arm.first_s(name) == inf for name in usual)} of {len(usual)}",
            f"{median(rates):.1f} times" if rates else "",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def read_figures(path: Path) -> list[dict[str, Any]]:
    """All repeats so far."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=" ".join((__doc__ or "").split("\n\n")[0].split()))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", type=float, default=60.0, help="processor seconds of a repeat")
    parser.add_argument("--figures", type=Path, default=FIGURES)
    options = parser.parse_args(arguments)
    done = {(one["arm"], one["repeat"]) for one in read_figures(options.figures)}
    for repeat in range(1, options.repeats + 1):
        for arm in SEARCHES:
            if (arm, repeat) not in done:
                figures = run_repeat(arm, repeat, options.budget)
                with options.figures.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(asdict(figures)) + "\n")
    print(table(read_figures(options.figures), json.loads(GOALS_OF_SEEDS.read_text(encoding="utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
