"""Simplifies a run of a scenario that failed: its text, on the simulated runtime with one seed."""

import os
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
from upheaval.campaign.tries import Try, TryLog, search_fields
from upheaval.checkers.verdict import Verdict
from upheaval.errors import UsageError
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.load.own import load_maker
from upheaval.records import Outcome, owned_folder
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes.simulated.world import START_NS, FreshTiming
from upheaval.scenario import OwnCode, parse_scenario
from upheaval.workload import Load
from upheaval_node.types import MS

FRESH_SEEDS: Final = 20
"""The number of other seeds that show whether the text fails with any timing."""
SEEDS_A_TEXT: Final = 4
_REFUSED: Final = Try(())
"""The result of an invalid text."""


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """The options with which a text is run."""

    name: str
    seed: int
    planted: str | None = None
    own: OwnCode | None = None


def try_text(origin: TextOrigin, text: str, scratch: Path, fresh: FreshTiming | None = None) -> Try:
    """Run and judge a text in `scratch`, and leave nothing there. A text with an error has no findings."""
    folder = scratch / f"{origin.name}-{os.getpid()}"
    try:
        scenario = parse_scenario(text, name=origin.name, where=origin.name).run_by(origin.own)
        if SIMULATED not in scenario.runtimes:
            return _REFUSED
        own = origin.own
        make_load = Load if own is None else load_maker(own.user, own.source)
        stage = SimulatedStage(
            scenario, origin.seed, folder, origin.planted, traces_protocol=False, make_load=make_load
        )
        if fresh is not None:
            stage.cluster.world.plan(fresh)
        result = run_scenario(
            scenario, stage, runtime=SIMULATED, seed=origin.seed, say=lambda _: None, planted=origin.planted, own=own
        )
    except UsageError:
        return _REFUSED
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    shown = [
        Fingerprint.of(finding.verdict, finding.promise, finding.signature)
        for finding in result.report.worst_first
        if finding.verdict is not Verdict.VALID
    ]
    acknowledged = sum(operation.outcome is Outcome.OK for operation in stage.cluster.history)
    return Try(tuple(dict.fromkeys(shown)), (stage.cluster.world.now_ns - START_NS) // MS, acknowledged)


def try_text_tape(origin: TextOrigin, tape: Fields, scratch: Path) -> Try:
    """Like `try_text`, for a tape."""
    return try_text(origin, text_of_tape(read_text_tape(tape)), scratch)


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
    fresh: int
    """With how many of `FRESH_SEEDS` other seeds it fails the same way."""


def shrink_text(
    origin: TextOrigin,
    text: str,
    wanted: Fingerprint,
    shown: Try,
    tries: Path,
    budget: Budget,
    jobs: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> SmallestText:
    """Shrink a text that shows that fingerprint with that seed."""
    tape = read_text_tape(tape_of_text(text))
    log = TryLog(tries, search_fields(origin.seed, origin.planted, wanted, tape))
    with (
        owned_folder("campaign") as scratch,
        some_at_a_time(partial(try_text_tape, origin, scratch=scratch), jobs) as run,
    ):
        searched = Shrinking(tape, wanted, shown, read_text_tape, run, log, budget, jobs, without_faults, say)
        smallest = text_of_tape(searched.shrink())
    seeds = range(origin.seed + 1, origin.seed + 1 + FRESH_SEEDS)
    with (
        owned_folder("campaign") as scratch,
        some_at_a_time(partial(_try_seed, origin, smallest, scratch), jobs) as run_seeds,
    ):
        fresh = sum(wanted in tried.fingerprints for tried in run_seeds(seeds))
    return SmallestText(smallest, origin, searched.shown, len(log), searched.is_over, log.others(wanted), fresh)


def _try_seed(origin: TextOrigin, text: str, scratch: Path, seed: int) -> Try:
    return try_text(replace(origin, seed=seed), text, scratch)


def state_seed(
    seed: int, texts: Iterable[str], planted: str | None, own: OwnCode | None, wanted: Fingerprint
) -> tuple[TextOrigin, str, Try] | None:
    """The first of these texts that shows the fingerprint, with the seed it was made from or another one."""
    with owned_folder("campaign") as scratch:
        for text in texts:
            for other in (seed, *range(seed + 1, seed + SEEDS_A_TEXT)):
                origin = TextOrigin(f"seed-{seed}", other, planted, own)
                tried = try_text(origin, text, scratch)
                if wanted in tried.fingerprints:
                    return origin, text, tried
                if tried == _REFUSED:
                    break
    return None
