"""A simulated failure on live members of another system: the schedule, and what its tries showed.

The schedule is run once more in the simulation, to its end and without the invariants. Its promises are those that a
live run can break, too.
"""

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.text_tries import broken_in
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.errors import UsageError
from upheaval.execution.known_bugs import rate_interval
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import RunFolder
from upheaval.runtime_names import SIMULATED
from upheaval.scenario import Scenario, parse_scenario
from upheaval.scenario.by_hand import Leaders
from upheaval.scenario.portable import LeaderAt, portable


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule for live members, and how it failed in the simulation."""

    scenario: Scenario
    wanted: Fingerprint
    changes: tuple[str, ...]


def schedule_of(text: str, name: str, seed: int, folder: Path) -> Schedule:
    """Run the text in the simulation, in that folder, and make it a schedule for live members.

    Raises `UsageError` if the run breaks no promise, and for a fault that live members cannot have; the folder is
    removed then.
    """
    try:
        return _schedule_of(text, name, seed, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _schedule_of(text: str, name: str, seed: int, folder: Path) -> Schedule:
    unwatched = "\n".join(line for line in text.splitlines() if line.split()[:1] != ["invariants"]) + "\n"
    scenario = parse_scenario(unwatched, name=name, where=name)
    if SIMULATED not in scenario.runtimes:
        raise UsageError(f"{name} does not run in the simulation, so there is no failure to compare with")
    stage = SimulatedStage(scenario, seed, folder)
    report = run_scenario(scenario, stage, runtime=SIMULATED, seed=seed, say=lambda _: None).report
    broken = broken_in(report)
    if not broken:
        raise UsageError(
            f"{name} breaks no promise in a simulated run with seed {seed} to its end: "
            "carry one that fails without `invariants on`"
        )
    made = portable(text, leaders_of(stage.run))
    return Schedule(parse_scenario(made.text, name=f"{name}-carried", where=name), broken[0], made.changes)


def leaders_of(run: RunFolder) -> LeaderAt:
    """Who led when the faults of a run began and ended."""
    leaders = Leaders(run, run.read_manifest())
    faults = {fault.name: fault for fault in run.read_faults()}

    def leader_at(name: str, has_ended: bool) -> int | None:
        fault = faults.get(name)
        ns = None if fault is None else fault.heal_begin_ns if has_ended else fault.inject_begin_ns
        return None if ns is None else leaders.at(ns)

    return leader_at


def _broken(report: Report) -> list[Finding]:
    return [finding for finding in report.worst_first if finding.verdict is Verdict.INVALID]


@dataclass(frozen=True, slots=True)
class Carried:
    """What the tries of a schedule showed."""

    wanted: Fingerprint
    tries: int
    judged: int
    """How many broke the same promise, or kept it with no finding that is unknown. The rate is of these."""
    broken: int
    """In how many the same promise was broken."""
    alike: int
    """In how many of them with the same fingerprint."""
    seen: Counter[str]
    """The fingerprints of broken promises, with known issues, by the number of tries."""
    prevented: Counter[str]
    """Why tries did not break the promise."""

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % interval of the rate; everything is possible if no try was judged."""
        return rate_interval(self.broken, self.judged) if self.judged else (0.0, 1.0)


def carried(wanted: Fingerprint, reports: Sequence[Report], failures: Sequence[str] = ()) -> Carried:
    """Count what the runs showed, and the reasons why others left none."""
    broken = alike = unbroken = 0
    seen: Counter[str] = Counter()
    prevented: Counter[str] = Counter(failures)
    for report in reports:
        broken_here = broken_in(report)
        promises = {fingerprint.promise for fingerprint in broken_here}
        seen.update({", ".join(filter(None, (str(Fingerprint.of_finding(one)), one.known))) for one in _broken(report)})
        if wanted.promise in promises:
            broken += 1
            alike += wanted in broken_here
            continue
        reason = _unjudged(report, wanted)
        unbroken += reason is None
        prevented[reason or _unbroken(report, wanted)] += 1
    return Carried(wanted, len(reports) + len(failures), broken + unbroken, broken, alike, seen, prevented)


def _unbroken(report: Report, wanted: Fingerprint) -> str:
    others = ", ".join(dict.fromkeys(str(finding.promise) for finding in _broken(report)))
    return f"{wanted.promise} was kept, {others} was broken" if others else "every promise that was checked was kept"


def _unjudged(report: Report, wanted: Fingerprint) -> str | None:
    """Why a run that did not break the promise does not show that it was kept; None if it does."""
    for finding in report.worst_first:
        if finding.verdict not in (Verdict.VALID, Verdict.INVALID):
            return f"{finding.promise}: {' '.join(finding.detail.split())[:160]}"
    is_checked = any(finding.promise == wanted.promise for finding in report.findings)
    return None if is_checked else f"{wanted.promise} was not checked"
