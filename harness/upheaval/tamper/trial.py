"""Tries edits on run folders, and records the verdict on each."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.errors import UsageError
from upheaval.records import owned_folder
from upheaval.tamper.edit import Edit
from upheaval.tamper.run_copy import Lacking, copy_run


class Outcome(StrEnum):
    """The outcomes of an edit, from good to bad. Over several runs the worst one counts."""

    DOES_NOT_APPLY = "does not apply"
    """No run has what the edit changes."""
    NOTICED = "noticed"
    """The verdict is invalid, it is unknown for a promise that the edit names, or a file is refused as malformed."""
    UNKNOWN = "unknown"
    """The verdict is unknown for other reasons."""
    WRONG = "valid although wrong"


@dataclass(frozen=True)
class Trial:
    """The result of an edit: the run with the worst outcome and its decisive finding; `why` if there is none."""

    edit: Edit
    outcome: Outcome
    run: Path | None = None
    finding: Finding | None = None
    why: str = ""
    runs: int = 0
    """The number of runs on which it was tried."""

    def to_fields(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {
            "edit": self.edit.name,
            "forges": self.edit.forges,
            "must_notice": list(self.edit.promises),
            "outcome": self.outcome,
            "run": None if self.run is None else str(self.run),
            "finding": None if self.finding is None else self.finding.to_fields(),
            "why": self.why,
            "runs": self.runs,
        }


@dataclass(frozen=True)
class Score:
    """The number of edits with each outcome."""

    counts: dict[Outcome, int]

    @classmethod
    def of(cls, trials: Sequence[Trial]) -> "Score":
        """The score of these trials."""
        return cls({outcome: sum(trial.outcome is outcome for trial in trials) for outcome in Outcome})

    @property
    def text(self) -> str:
        """One line, with the important outcomes first."""
        shown = (Outcome.NOTICED, Outcome.UNKNOWN, Outcome.WRONG, Outcome.DOES_NOT_APPLY)
        counts = ", ".join(f"{self.counts[outcome]} {outcome}" for outcome in shown)
        return f"{sum(self.counts.values())} edits: {counts}"

    @property
    def exit_status(self) -> int:
        """The exit status of the command: 1 if any edit is valid although wrong, 3 if none applied, else 0."""
        if self.counts[Outcome.WRONG]:
            return Verdict.INVALID.exit_status
        is_tried = self.counts[Outcome.NOTICED] + self.counts[Outcome.UNKNOWN] > 0
        return (Verdict.VALID if is_tried else Verdict.UNKNOWN).exit_status


def refuse_unfit(runs: Sequence[Path]) -> None:
    """Raise `UsageError` for a run that is not valid as it is, or not valid once a copy was sealed anew."""
    for path in runs:
        _require_valid(path, verify_run(path), "")
        with owned_folder("tamper") as place:
            copy = copy_run(path, place / "run")
            copy.seal_anew()
            _require_valid(path, verify_run(copy.path), " once it is sealed anew")


def _require_valid(path: Path, report: Report, when: str) -> None:
    if report.verdict is not Verdict.VALID:
        finding = report.worst_first[0]
        raise UsageError(f"{path} is {report.verdict.text}{when}, expected a valid run: {finding.to_lines()[0]}")


def try_edits(
    runs: Sequence[Path], edits: Sequence[Edit], show: Callable[[str], None], *, everywhere: bool = False
) -> Iterator[Trial]:
    """Try each edit on the first run that has what it changes, or with `everywhere` on each such run.

    Yields one trial per edit. `show` gets the progress.
    """
    for number, edit in enumerate(edits):
        show(f"{number} of {len(edits)} edits, {edit.name}")
        trials: list[Trial] = []
        lacking: list[str] = []
        for path in runs:
            trial = try_edit(path, edit)
            if trial.outcome is Outcome.DOES_NOT_APPLY:
                lacking.append(trial.why)
                continue
            trials.append(trial)
            if not everywhere:
                break
        if trials:
            worst = max(trials, key=lambda trial: tuple(Outcome).index(trial.outcome))
            yield replace(worst, runs=len(trials))
        else:
            yield Trial(edit, Outcome.DOES_NOT_APPLY, why="; ".join(dict.fromkeys(lacking)))


def try_edit(path: Path, edit: Edit) -> Trial:
    """Try an edit on a copy of one run."""
    with owned_folder("tamper") as place:
        copy = copy_run(path, place / "run")
        try:
            edit.change(copy)
        except Lacking as lacking:
            return Trial(edit, Outcome.DOES_NOT_APPLY, path, why=str(lacking))
        copy.seal_anew()
        try:
            return _trial(path, edit, verify_run(copy.path))
        except UsageError as error:
            return Trial(edit, Outcome.NOTICED, path, why=f"refused: {error}".replace(f"{copy.path}/", ""))


def _trial(path: Path, edit: Edit, report: Report) -> Trial:
    bad = [finding for finding in report.worst_first if finding.verdict is not Verdict.VALID]
    named = [finding for finding in bad if finding.promise in edit.promises]
    if report.verdict is Verdict.VALID:
        return Trial(edit, Outcome.WRONG, path)
    if report.verdict is Verdict.INVALID:
        worst = [finding for finding in bad if finding.verdict is Verdict.INVALID]
        return Trial(edit, Outcome.NOTICED, path, next((finding for finding in worst if finding in named), worst[0]))
    if named:
        return Trial(edit, Outcome.NOTICED, path, named[0])
    return Trial(edit, Outcome.UNKNOWN, path, bad[0])
