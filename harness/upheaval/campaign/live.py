"""A campaign on processes or in containers: one drawn schedule after the other, each on its own cluster.

Such executions do not repeat, so the run folder is the evidence of a seed. It is kept unless everything was valid.
"""

import shutil
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from upheaval.campaign.schedules import draw_schedule, kind_of
from upheaval.campaign.seed import finding_line
from upheaval.campaign.seed_lines import Fate, FaultCounts, fields_of
from upheaval.campaign.unstarted import UnstartedInARow
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict, worst
from upheaval.errors import EnvironmentFault
from upheaval.execution.live import LiveStage
from upheaval.execution.run import run_scenario
from upheaval.load.own import load_maker
from upheaval.records import Json, Outcome, RunFolder, version_of
from upheaval.scenario import OwnCode, Scenario
from upheaval.system import system_named
from upheaval.workload import Load
from upheaval_node import __version__


@dataclass(frozen=True, slots=True)
class LiveCampaign:
    """The common settings of all seeds, and the place of their run folders."""

    runtime: str
    system: str
    folder: Path
    planted: str | None = None
    own: OwnCode | None = None
    launcher: str | None = None
    jvm: str | None = None

    def scenario(self, seed: int) -> Scenario:
        """The scenario of a seed's cluster."""
        drawn = draw_schedule(seed, self.system, has_streams=system_named(self.system).has_streams)
        return drawn.run_by(self.own).launched(self.launcher, self.jvm)

    def line(self, outcome: "LiveOutcome") -> dict[str, Json]:
        """One line about the outcome of a seed and its cluster."""
        system = system_named(self.system).text
        of = {"runtime": self.runtime, "system": system, "version": version_of(system, __version__)}
        if self.own is not None:
            of |= {"service": self.own.service, "own_service": self.own.service}
        return {**of, **outcome.to_fields()}


@dataclass(frozen=True, slots=True)
class LiveOutcome:
    """The outcome of one seed's schedule. `folder` is empty when its run was not kept."""

    seed: int
    report: Report
    seconds: float
    operations: int
    faults: FaultCounts
    folder: str = ""

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all promises."""
        return self.report.verdict

    @property
    def worst(self) -> Finding | None:
        """The worst finding; None if all are valid."""
        return next((finding for finding in self.report.worst_first if finding.verdict is not Verdict.VALID), None)

    def finding_lines(self) -> list[str]:
        """A line for each promise that is not valid, with the reason."""
        return [
            finding_line(finding.verdict, finding.promise, finding.evidence)
            for finding in self.report.findings
            if finding.verdict is not Verdict.VALID
        ]

    def to_fields(self) -> dict[str, Json]:
        """The fields of a JSON line."""
        return {
            "seed": self.seed,
            "verdict": self.verdict.text,
            "promise": "" if self.worst is None else self.worst.promise,
            "detail": "" if self.worst is None else " ".join(self.worst.evidence.split()),
            "findings": list(self.finding_lines()),
            "gaps": list(self.report.gaps),
            "seconds": self.seconds,
            "operations": self.operations,
            "fault_counts": fields_of(self.faults),
            "folder": self.folder,
        }


@dataclass(slots=True)
class LiveSummary:
    """The results of a campaign's seeds together."""

    verdicts: dict[Verdict, list[int]] = field(default_factory=lambda: {verdict: [] for verdict in Verdict})
    """The seeds with each verdict."""
    seconds: float = 0.0
    operations: int = 0
    faults: FaultCounts = field(default_factory=dict)
    known: dict[str, list[int]] = field(default_factory=dict)
    """The seeds that showed each known defect of Aeron, by `Finding.known`."""
    known_issues: dict[int, list[int]] = field(default_factory=dict)
    """Those of defects with an issue."""
    gaps: Counter[str] = field(default_factory=Counter)
    """In how many seeds each promise could not be judged, by the line that says so."""

    @property
    def seeds(self) -> int:
        """The number of seeds that were run."""
        return sum(map(len, self.verdicts.values()))

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of all seeds; unknown when none was run."""
        return worst([verdict for verdict, seeds in self.verdicts.items() if seeds])

    def add(self, outcome: LiveOutcome) -> None:
        """Count one seed in."""
        self.verdicts[outcome.verdict].append(outcome.seed)
        self.seconds += outcome.seconds
        self.operations += outcome.operations
        issues = {finding.known_issue for finding in outcome.report.findings if finding.known_issue is not None}
        for issue in sorted(issues):
            self.known_issues.setdefault(issue, []).append(outcome.seed)
        for known in sorted({finding.known for finding in outcome.report.findings if finding.known}):
            self.known.setdefault(known, []).append(outcome.seed)
        for kind, counts in outcome.faults.items():
            self.faults.setdefault(kind, Counter()).update(counts)
        self.gaps.update(outcome.report.gaps)

    def to_fields(self) -> dict[str, Json]:
        """The fields that `--json` prints."""
        return {
            "seeds": self.seeds,
            **{verdict.text: list(seeds) for verdict, seeds in self.verdicts.items()},
            "seconds": round(self.seconds, 1),
            "gaps": dict(self.gaps),
            "operations": self.operations,
            "faults": fields_of(self.faults),
            "known_issues": {str(issue): list(seeds) for issue, seeds in sorted(self.known_issues.items())},
        }


def run_live(campaign: LiveCampaign, seeds: Iterable[int]) -> Iterator[LiveOutcome]:
    """Run the schedules one after the other, so that clusters do not compete for the processor.

    Raises `EnvironmentFault` when several clusters in a row do not start; a single one is an outcome.
    """
    unstarted = UnstartedInARow()
    for seed in seeds:
        begin = time.monotonic()
        try:
            outcome = _run(campaign, seed)
        except EnvironmentFault as error:
            unstarted.add(error)
            outcome = _unstarted(campaign, seed, error, time.monotonic() - begin)
        else:
            unstarted.end()
        yield outcome


def _unstarted(campaign: LiveCampaign, seed: int, error: EnvironmentFault, seconds: float) -> LiveOutcome:
    finding = Finding(Promise.RUN_ENDED, Verdict.UNKNOWN, " ".join(str(error).split()))
    folder = campaign.folder / f"seed-{seed}"
    return LiveOutcome(seed, Report(str(folder), (finding,)), seconds, 0, {}, str(folder))


def _run(campaign: LiveCampaign, seed: int) -> LiveOutcome:
    scenario, folder, own = campaign.scenario(seed), campaign.folder / f"seed-{seed}", campaign.own
    make_load = Load if own is None else load_maker(own.user, own.source)
    begin = time.monotonic()
    stage = LiveStage(scenario, campaign.runtime, seed, folder, campaign.planted, make_load)
    result = run_scenario(
        scenario, stage, runtime=campaign.runtime, seed=seed, say=lambda _: None, planted=campaign.planted, own=own
    )
    run = RunFolder(folder)
    is_kept = result.verdict is not Verdict.VALID
    outcome = LiveOutcome(
        seed,
        result.report,
        time.monotonic() - begin,
        sum(operation.outcome is Outcome.OK for operation in run.known_operations()),
        _fault_counts(scenario, run),
        str(folder) if is_kept else "",
    )
    if not is_kept:
        shutil.rmtree(folder)
    return outcome


def _fault_counts(scenario: Scenario, run: RunFolder) -> FaultCounts:
    records = {fault.name: fault for fault in run.read_faults()}
    counts: FaultCounts = {}
    for name in scenario.planned_faults:
        record = records.get(name)
        undone = Fate.LEFT_OUT if record is None else Fate.UNSEEN
        fate = Fate.PROVED if record is not None and record.is_proved else undone
        counts.setdefault(kind_of(name), Counter()).update((Fate.PLANNED, fate))
    return counts
