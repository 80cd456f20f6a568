"""A campaign: seeds in worker processes, or wherever a runner has them run, and the sum of what they exercised."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from upheaval.campaign.findability import rate_excluded
from upheaval.campaign.goals.table import GOALS, unreached
from upheaval.campaign.kept import SUMMARY_FILE, alone_in, keep_run, move_to_scratch, remove_earlier
from upheaval.campaign.pool import some_at_a_time
from upheaval.campaign.searches import UNIFORM
from upheaval.campaign.seed import SeedOrigin, SeedOutcome, try_origin
from upheaval.campaign.seed_lines import SEEDS_FILE, Fate, FaultCounts, fields_of
from upheaval.campaign.swarm_tape import tape_of
from upheaval.checkers.verdict import Verdict, worst
from upheaval.records import Json, jsonfields, owned_folder
from upheaval.scenario import OwnCode
from upheaval_node.cluster.election_states import LEGAL_MOVES
from upheaval_node.cluster.rules import OWN

Runner = Callable[[Sequence[SeedOrigin], Path | None], AbstractContextManager[Iterator[SeedOutcome]]]
"""Runs seeds: their outcomes in order, while the context is open. The run folders of the first failed seeds go to the
path. No seed runs before its outcome, or that of an earlier one, is asked for.
"""


def legal_moves() -> set[str]:
    """The legal moves in the table of elections, as `FROM>TO`."""
    return {f"{old.name}>{new.name}" for old, targets in LEGAL_MOVES.items() for new in targets}


@dataclass(slots=True)
class Summary:
    """What the seeds of a campaign exercised together."""

    seeds: int = 0
    counted: int = 0
    """The number of valid seeds that are not inconclusive."""
    inconclusive: list[int] = field(default_factory=list)
    failed: list[SeedOutcome] = field(default_factory=list)
    seconds: float = 0.0
    processor_seconds: float = 0.0
    operations: int = 0
    elections: Counter[int] = field(default_factory=Counter)
    snapshots: int = 0
    endings: int = 0
    members: Counter[int] = field(default_factory=Counter)
    sync_levels: Counter[int] = field(default_factory=Counter)
    services: Counter[str] = field(default_factory=Counter)
    faults: FaultCounts = field(default_factory=dict)
    variations: FaultCounts = field(default_factory=dict)
    """How many seeds had each variation, counted like faults."""
    moves: Counter[str] = field(default_factory=Counter)
    goals: Counter[str] = field(default_factory=Counter)
    """How many seeds reached each goal."""
    gaps: Counter[str] = field(default_factory=Counter)
    """In how many seeds each promise could not be judged, by the line that says so."""

    def add(self, outcome: SeedOutcome) -> None:
        """Count one seed in."""
        self.seeds += 1
        if not outcome.is_valid:
            self.failed.append(outcome)
        elif outcome.is_inconclusive:
            self.inconclusive.append(outcome.swarm.seed)
        else:
            self.counted += 1
        self.seconds += outcome.seconds
        self.processor_seconds += outcome.processor_seconds
        self.operations += outcome.operations
        self.elections[outcome.elections] += 1
        self.snapshots += outcome.snapshots
        self.endings += outcome.endings
        self.members[outcome.swarm.members] += 1
        self.sync_levels[outcome.swarm.sync_level] += 1
        self.services[outcome.swarm.service] += 1
        for kind, counts in outcome.faults.items():
            self.faults.setdefault(kind, Counter()).update(counts)
        for kind, fate in outcome.variation_fates():
            self.variations.setdefault(kind, Counter()).update((Fate.PLANNED, fate))
        self.moves.update(outcome.moves)
        self.goals.update(outcome.goals)
        self.gaps.update(outcome.gaps)

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the failed seeds. Unknown when no seed counts: inconclusive seeds show nothing, however
        many.
        """
        failed = [Verdict.named(outcome.verdict) for outcome in self.failed]
        return worst(failed or [Verdict.VALID] * self.counted)

    @property
    def untaken_moves(self) -> list[str]:
        """Moves in the table of elections that no member made, including failures (`STATE>INIT`)."""
        return sorted(legal_moves() - set(self.moves))

    @property
    def unreached_goals(self) -> list[str]:
        """The goals that no seed reached."""
        return unreached(self.goals)

    def to_fields(self) -> dict[str, Json]:
        """The fields that `--json` prints."""
        return {
            "seeds": self.seeds,
            "counted": self.counted,
            "excluded_rate": rate_excluded(self.counted),
            "inconclusive": list(self.inconclusive),
            "failed": [outcome.swarm.seed for outcome in self.failed],
            "simulated_seconds": round(self.seconds, 1),
            "processor_seconds": round(self.processor_seconds, 1),
            "gaps": dict(self.gaps),
            "operations": self.operations,
            "snapshots": self.snapshots,
            "endings": self.endings,
            "elections": {str(key): value for key, value in sorted(self.elections.items())},
            "members": {str(key): value for key, value in sorted(self.members.items())},
            "sync_levels": {str(key): value for key, value in sorted(self.sync_levels.items())},
            "services": dict(sorted(self.services.items())),
            "faults": fields_of(self.faults),
            "variations": fields_of(self.variations),
            "moves": dict(sorted(self.moves.items())),
            "untaken_moves": list(self.untaken_moves),
            "goals": {goal.name: self.goals[goal.name] for goal in GOALS},
            "unreached_goals": list(self.unreached_goals),
        }


def line_of(outcome: SeedOutcome, search: str = UNIFORM, *, is_remembered: bool = False) -> dict[str, Json]:
    """The fields of a seed in `seeds.jsonl`: its outcome, how it came to be run, and the tape that makes the same run.

    A remembered seed is run because it failed in an earlier campaign, so it says nothing of a rate.
    """
    how: dict[str, Json] = {"search": search, "remembered": is_remembered}
    return {**outcome.to_fields(), **how, "tape": tape_of(outcome.swarm).to_fields()}


def run_campaign(
    seeds: Iterable[int],
    summary: Summary | None = None,
    *,
    workers: int = 1,
    runner: Runner | None = None,
    planted: str | None = None,
    own: OwnCode | None = None,
    compatibility: str = OWN,
    search: str = UNIFORM,
    remembered: Collection[int] = (),
    keep: Path | None = None,
    out: Path | None = None,
    is_alone: bool = False,
    until: Callable[[SeedOutcome], bool] = lambda _: False,
    show: Callable[[SeedOutcome], None] = lambda _: None,
) -> Summary:
    """Run seeds until `until` holds for an outcome. `show` gets each outcome after the summary has counted it.

    With `out`, one line per outcome is written there, in place of an earlier campaign, as soon as the runner has begun.
    Raises `UsageError` while another one writes there, unless the caller holds the folder (`is_alone`). Even with
    several workers, outcomes come in the order of the seeds. A `runner` takes the place of the worker processes. `keep`
    gets the run folders of the first failed seeds. `remembered` failed in earlier campaigns.
    """
    summary = Summary() if summary is None else summary
    origins = [SeedOrigin(seed, planted, own, compatibility, search) for seed in seeds]
    with (
        nullcontext() if out is None or is_alone else alone_in(out),
        (runner or partial(in_processes, workers=workers))(origins, keep) as outcomes,
        nullcontext() if out is None else _replacing(out, summary),
    ):
        for outcome in outcomes:
            if out is not None:
                line = line_of(outcome, search, is_remembered=outcome.swarm.seed in remembered)
                with (out / SEEDS_FILE).open("a", encoding="utf-8") as stream:
                    stream.write(jsonfields.to_json(line, indent=None) + "\n")
            # After its line is written: if the campaign is interrupted here, every counted seed has a line.
            summary.add(outcome)
            show(outcome)
            if until(outcome):
                break
    return summary


@contextmanager
def _replacing(out: Path, summary: Summary) -> Iterator[None]:
    """Replace the campaign in that folder, and write the summary however the block ends."""
    remove_earlier(out)
    try:
        yield
    finally:
        (out / SUMMARY_FILE).write_text(json.dumps(summary.to_fields(), indent=2) + "\n", encoding="utf-8")


@contextmanager
def in_processes(origins: Sequence[SeedOrigin], keep: Path | None, *, workers: int) -> Iterator[Iterator[SeedOutcome]]:
    """The runner of this machine. With one worker seeds run in this process."""
    with owned_folder("campaign") as scratch:
        # Workers run ahead of a slow seed, and of a campaign that ends early.
        to_scratch = None if keep is None else partial(move_to_scratch, folder=scratch / "failed", out=keep)
        with some_at_a_time(partial(try_origin, scratch=scratch, keep=to_scratch), workers) as run:
            # A pool starts the seeds as soon as it has them.
            yield in_turn(chain.from_iterable(map(run, [origins])), keep)


def in_turn(outcomes: Iterable[SeedOutcome], keep: Path | None) -> Iterator[SeedOutcome]:
    """Move each folder from the scratch folder to `keep`, when the outcome of its seed is taken."""
    for outcome in outcomes:
        if keep is not None and outcome.folder:
            run = Path(outcome.folder)
            outcome.folder = str(keep_run(run, keep) or "")
            shutil.rmtree(run, ignore_errors=True)
        yield outcome
