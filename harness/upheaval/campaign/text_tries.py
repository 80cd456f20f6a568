"""Runs the text of a scenario, to see whether it fails alike.

A simulated text runs once: another run is the same execution. Live executions do not repeat, so a live text runs until
a sequential test has decided.
"""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.sequential import fails_often
from upheaval.campaign.tape import Fields
from upheaval.campaign.text_tape import read_text_tape, text_of_tape
from upheaval.campaign.tries import Try, code_fields
from upheaval.campaign.unstarted import UnstartedInARow
from upheaval.checkers.verdict import Report, Verdict
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.execution.live import LiveStage
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.load.own import load_maker
from upheaval.records import OWN_SYSTEM, Json, Outcome, RunFolder
from upheaval.runtime_names import SIMULATED
from upheaval.runtimes.simulated.world import START_NS, FreshTiming
from upheaval.scenario import OwnCode, parse_scenario
from upheaval.scenario.values import Scenario
from upheaval.workload import Load
from upheaval_node.types import MS

REFUSED: Final = Try((), runs=0)
"""The result of an invalid text, which is not run."""


@dataclass(frozen=True, slots=True)
class TextOrigin:
    """The options with which a text is run. Without a system it is the one that the text names."""

    name: str
    seed: int
    planted: str | None = None
    own: OwnCode | None = None
    runtime: str = SIMULATED
    system: str | None = None
    launcher: str = ""
    jvm: str = ""
    source: str = ""

    @property
    def is_live(self) -> bool:
        """Whether another run may be another execution."""
        return self.runtime != SIMULATED

    @property
    def place(self) -> dict[str, Json]:
        """What tells a live search from others, beside its seed."""
        return {"runtime": self.runtime, "system": self.system, "launcher": self.launcher} if self.is_live else {}

    @property
    def code(self) -> dict[str, Json]:
        """What tells a search from one of other code of the user's."""
        return code_fields(self.own, self.source, self.system or OWN_SYSTEM)

    def scenario(self, text: str) -> Scenario:
        """Raises `UsageError` for a text with an error, and for one that does not run there."""
        scenario = parse_scenario(text, name=self.name, where=self.name).run_by(self.own).on_system(self.system)
        if self.runtime not in scenario.runtimes:
            raise UsageError(f"{self.name} does not run on the {self.runtime} runtime")
        return scenario.launched(self.launcher, self.jvm, self.source)


def try_text(origin: TextOrigin, text: str, scratch: Path, fresh: FreshTiming | None = None) -> Try:
    """Run and judge a text once in the simulation, and leave nothing in `scratch`. Raises `UsageError` for a text with
    an error.
    """
    scenario, own = origin.scenario(text), origin.own
    folder = scratch / f"{origin.name}-{os.getpid()}"
    make_load = Load if own is None else load_maker(own.user, own.source)
    stage = SimulatedStage(scenario, origin.seed, folder, origin.planted, traces_protocol=False, make_load=make_load)
    if fresh is not None:
        stage.cluster.world.plan(fresh)
    try:
        result = run_scenario(
            scenario, stage, runtime=SIMULATED, seed=origin.seed, say=lambda _: None, planted=origin.planted, own=own
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    acknowledged = sum(operation.outcome is Outcome.OK for operation in stage.cluster.history)
    run_ms = (stage.cluster.world.now_ns - START_NS) // MS
    return Try(fingerprints_of(result.report), run_ms, acknowledged, digest=result.digest or "")


def try_text_tape(origin: TextOrigin, wanted: Fingerprint, tape: Fields, scratch: Path) -> Try:
    """Whether the text of a tape fails alike. A text with an error has no findings."""
    text = text_of_tape(read_text_tape(tape))
    try:
        return try_live_text(origin, wanted, text, scratch) if origin.is_live else try_text(origin, text, scratch)
    except UsageError:
        return REFUSED


def try_live_text(origin: TextOrigin, wanted: Fingerprint, text: str, scratch: Path) -> Try:
    """Run and judge a text on live members until a test decides. The result has the wanted fingerprint only if the text
    fails alike often.
    """
    origin.scenario(text)
    folder = scratch / origin.name

    def once() -> Try:
        try:
            return run_live_text(origin, text, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    return until_decided(once, wanted)


def until_decided(run: Callable[[], Try], wanted: Fingerprint) -> Try:
    """Run until a sequential test has decided. Raises `EnvironmentFault` when several clusters in a row do not
    start.
    """
    last_alike, others, unstarted = Try(()), dict[Fingerprint, None](), UnstartedInARow()
    alike = runs = 0
    while (is_often := fails_often(alike, runs)) is None:
        try:
            tried = run()
        except EnvironmentFault as error:
            unstarted.add(error)
            continue
        unstarted.end()
        runs += 1
        others.update(dict.fromkeys(tried.fingerprints))
        if wanted in tried.fingerprints:
            alike, last_alike = alike + 1, tried
    others.pop(wanted, None)
    fingerprints = (wanted, *others) if is_often else tuple(others)
    return replace(last_alike, fingerprints=fingerprints, runs=runs, alike=alike)


def run_live_text(origin: TextOrigin, text: str, folder: Path) -> Try:
    """Run and judge a text on live members. The folder stays."""
    scenario, own = origin.scenario(text), origin.own
    make_load = Load if own is None else load_maker(own.user, own.source)
    begin = time.monotonic()
    stage = LiveStage(scenario, origin.runtime, origin.seed, folder, origin.planted, make_load)
    report = run_scenario(
        scenario, stage, runtime=origin.runtime, seed=origin.seed, say=lambda _: None, planted=origin.planted, own=own
    ).report
    acknowledged = sum(operation.outcome is Outcome.OK for operation in RunFolder(folder).known_operations())
    return Try(fingerprints_of(report), round((time.monotonic() - begin) * 1000), acknowledged)


def fingerprints_of(report: Report) -> tuple[Fingerprint, ...]:
    """Those of all findings that are not valid, the worst first."""
    return tuple(
        dict.fromkeys(
            Fingerprint.of_finding(finding) for finding in report.worst_first if finding.verdict is not Verdict.VALID
        )
    )


def broken_in(report: Report) -> list[Fingerprint]:
    """Those of all broken promises, the worst first."""
    return [fingerprint for fingerprint in fingerprints_of(report) if fingerprint.is_broken]
