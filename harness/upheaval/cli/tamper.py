"""`upheaval tamper`: forges run folders in every way that the set has, and counts what the verdict does not notice."""

import json
from collections.abc import Sequence
from typing import Final

from upheaval.cli.judge_commands import TamperOptions
from upheaval.cli.progress import ProgressLine
from upheaval.errors import UsageError
from upheaval.tamper.edit import Edit
from upheaval.tamper.table import EDITS
from upheaval.tamper.trial import Score, Trial, refuse_unfit, try_edits
from upheaval_node.suggestions import did_you_mean

_LINES_S: Final = 30.0


def tamper(options: TamperOptions) -> int:
    """Try edits on copies of valid runs. Raises `UsageError` for a run that is not valid and an unknown edit."""
    edits = _chosen(options.only)
    refuse_unfit(options.runs)
    progress = ProgressLine(_LINES_S)
    trials = []
    for trial in try_edits(options.runs, edits, progress.show, everywhere=options.every_run):
        trials.append(trial)
        if not options.json:
            progress.end()
            print(_line(trial), flush=True)
    progress.end()
    score = Score.of(trials)
    if options.json:
        counts = {str(outcome): count for outcome, count in score.counts.items()}
        print(json.dumps({"edits": [trial.to_fields() for trial in trials], "score": counts}, indent=2))
    else:
        print(score.text)
    return score.exit_status


def _chosen(names: Sequence[str]) -> list[Edit]:
    known = {edit.name: edit for edit in EDITS}
    for name in names:
        if name not in known:
            raise UsageError(f"unknown edit {name!r}{did_you_mean(name, list(known))}")
    return [known[name] for name in names] or list(EDITS)


def _line(trial: Trial) -> str:
    shown = f"{trial.outcome}: {trial.edit.name}"
    finding = trial.finding
    if finding is not None:
        members = "" if not finding.members else f", members {', '.join(map(str, finding.members))}"
        position = "" if finding.position is None else f", position {finding.position}"
        return f"{shown}: {finding.promise} is {finding.verdict.text}{members}{position}"
    return f"{shown}: {trial.why}" if trial.why else f"{shown}: {trial.edit.forges}"
