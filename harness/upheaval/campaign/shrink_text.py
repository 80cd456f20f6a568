"""Simplifies a run of a scenario that failed: its text, on the runtime of that run."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.pool import some_at_a_time
from upheaval.campaign.shrink import Budget, Shrinking
from upheaval.campaign.tape import Fields
from upheaval.campaign.text_tape import read_text_tape, tape_of_text, text_of_tape, without_faults
from upheaval.campaign.text_tries import TextOrigin, run_live_text, try_text, try_text_tape
from upheaval.campaign.tries import Try, TryLog, search_fields
from upheaval.campaign.unstarted import UnstartedInARow
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.records import owned_folder, write_atomically
from upheaval.scenario import OwnCode

FRESH_SEEDS: Final = 20
"""The number of other seeds that show whether the text fails with any timing."""
FRESH_RUNS: Final = 10
"""The number of live runs after the search that show how often the text fails alike: the runs of the search itself
chose it for failing.
"""
SCENARIO_FILE: Final = "smallest.scenario"
MORE: Final = "# The budget ended the search: this fails alike, and may not be the simplest that does."
RUN_FOLDER: Final = "run"
"""The folder of a live run of the smallest text that fails alike."""
SEEDS_A_TEXT: Final = 4


@dataclass(frozen=True, slots=True)
class SmallestText:
    """The simplest text that fails the same way."""

    text: str
    origin: TextOrigin
    shown: Try
    runs: int
    is_over: bool
    """Whether the budget ended the search."""
    others: dict[Fingerprint, Fields]
    """Other failures, with the tape of each."""
    fresh: int = 0
    """How many of the fresh runs fail the same way: with other seeds, or of live members."""

    fresh_runs: int = 0
    """The number of fresh runs."""

    @property
    def marked(self) -> str:
        """The text for a file: a comment says where more runs may leave less of it."""
        return f"{MORE}\n{self.text}" if self.is_over else self.text


def shrink_text(
    origin: TextOrigin,
    text: str,
    wanted: Fingerprint,
    shown: Try,
    tries: Path,
    budget: Budget,
    jobs: int = 1,
    say: Callable[[str], None] = lambda _: None,
    *,
    replaces: bool = False,
) -> SmallestText:
    """Shrink a text that shows that fingerprint with that seed. A live run that does stays beside the tries, which may
    replace those of another text, and so does the text itself.
    """
    tape = read_text_tape(tape_of_text(text))
    log = TryLog(
        tries, search_fields(origin.seed, origin.planted, wanted, tape, origin.code) | origin.place, replaces=replaces
    )
    with (
        owned_folder("campaign") as scratch,
        some_at_a_time(partial(try_text_tape, origin, wanted, scratch=scratch), jobs) as run,
    ):
        searched = Shrinking(tape, wanted, shown, read_text_tape, run, log, budget, jobs, without_faults, say)
        smallest = text_of_tape(searched.shrink())
    left = SmallestText(smallest, origin, searched.shown, log.runs, searched.is_over, log.others(wanted))
    # Before the fresh runs, which may end with an error.
    write_atomically(tries.with_name(SCENARIO_FILE), left.marked)
    if origin.is_live:
        fresh, fresh_runs = live_failures(
            origin.name, partial(run_live_text, origin, smallest), wanted, tries.with_name(RUN_FOLDER)
        )
    else:
        fresh, fresh_runs = _failures_of_seeds(origin, smallest, wanted, jobs), FRESH_SEEDS
    return replace(left, fresh=fresh, fresh_runs=fresh_runs)


def _failures_of_seeds(origin: TextOrigin, text: str, wanted: Fingerprint, jobs: int) -> int:
    seeds = range(origin.seed + 1, origin.seed + 1 + FRESH_SEEDS)
    with (
        owned_folder("campaign") as scratch,
        some_at_a_time(partial(_try_seed, origin, text, scratch), jobs) as run_seeds,
    ):
        return sum(wanted in tried.fingerprints for tried in run_seeds(seeds))


def _try_seed(origin: TextOrigin, text: str, scratch: Path, seed: int) -> Try:
    return try_text(replace(origin, seed=seed), text, scratch)


def live_failures(name: str, run: Callable[[Path], Try], wanted: Fingerprint, run_folder: Path) -> tuple[int, int]:
    """How many of the fresh runs fail alike, and of how many whose clusters started. Leaves the folder of the first
    that does. Raises `EnvironmentFault` when several clusters in a row do not start.
    """
    shutil.rmtree(run_folder, ignore_errors=True)
    alike = runs = 0
    unstarted = UnstartedInARow()
    with owned_folder("campaign") as scratch:
        for number in range(FRESH_RUNS):
            folder = scratch / f"{name}-{number}"
            try:
                is_alike = wanted in run(folder).fingerprints
            except EnvironmentFault as error:
                unstarted.add(error)
                continue
            unstarted.end()
            runs, alike = runs + 1, alike + is_alike
            if is_alike and not run_folder.exists():
                shutil.copytree(folder, run_folder, symlinks=True)
            shutil.rmtree(folder, ignore_errors=True)
    return alike, runs


def state_seed(
    seed: int, texts: Iterable[str], planted: str | None, own: OwnCode | None, wanted: Fingerprint
) -> tuple[TextOrigin, str, Try] | None:
    """The first of these texts that shows the fingerprint, with the seed it was made from or another one."""
    with owned_folder("campaign") as scratch:
        for text in texts:
            for other in (seed, *range(seed + 1, seed + SEEDS_A_TEXT)):
                origin = TextOrigin(f"seed-{seed}", other, planted, own)
                try:
                    tried = try_text(origin, text, scratch)
                except UsageError:
                    break
                if wanted in tried.fingerprints:
                    return origin, text, tried
    return None
