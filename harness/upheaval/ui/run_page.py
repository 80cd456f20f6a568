"""The page of one run, as `upheaval report` writes it and `upheaval ui` serves it. Needs no extra."""

import shlex
from dataclasses import replace
from pathlib import Path

from upheaval.campaign.seed import seed_of_run
from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.judge import verify_run
from upheaval.checkers.services.raised import raised_in
from upheaval.checkers.verdict import Verdict
from upheaval.execution.run import RESULT_FILE, read_result
from upheaval.records import RunFolder, read_made_by_test
from upheaval.records.utf8 import storable
from upheaval.report import Moments, measure_run, scene_of
from upheaval.report.elections import elections_of
from upheaval.report.explanation import explain, in_order
from upheaval.report.page import MadeBy, page


def page_of_run(run: Path) -> str:
    """The whole document. Raises `UsageError` for a folder that is no run or a malformed one."""
    folder = RunFolder(run)
    manifest = folder.read_manifest()
    raised = raised_in(folder, facts_of_members(folder, manifest.members))
    figures, elections, verdict = measure_run(folder), elections_of(folder), verify_run(run)
    known = Moments(folder)
    bad = [finding for finding in verdict.findings if finding.verdict is not Verdict.VALID]
    moments = {finding: moment for finding in bad if (moment := known.of(finding)) is not None}
    broken = {finding: moment for finding, moment in moments.items() if finding.verdict is Verdict.INVALID}
    scene = scene_of(folder, manifest, figures, elections, broken)
    first = next(iter(in_order(bad, moments)), None)
    document = page(
        manifest,
        verdict,
        figures,
        raised,
        elections,
        scene=scene,
        made_by=_named(made_by(run), run),
        moments=moments,
        start_ns=known.start_ns,
        account=explain(folder, first) if first is not None and first.verdict is Verdict.INVALID else None,
    )
    return storable(document)


def _named(made: MadeBy, run: Path) -> MadeBy:
    """A run that was made by hand has the name of its folder."""
    return made if made.name else replace(made, name=run.absolute().name)


def made_by(run: Path) -> MadeBy:
    """By the file that what made the run left in its folder. Raises `UsageError` for a malformed one."""
    again = f"upheaval replay {shlex.quote(str(run.absolute()))}"
    test = read_made_by_test(run)
    if test is not None:
        return MadeBy(" ".join(test.command), str(test))
    origin = seed_of_run(run)
    if origin is not None:
        return MadeBy(f"campaign seed {origin.seed}", again)
    if (run / RESULT_FILE).is_file():
        return MadeBy(read_result(run).scenario, again)
    return MadeBy()
