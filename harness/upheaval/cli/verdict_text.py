"""A verdict as people read it: its line with counts, then what is broken or unknown, then what was kept in one line.

Every command that judges prints its reports by this, at any width.
"""

import sys
from collections import Counter
from collections.abc import Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Final

from upheaval.checkers.promises import AnyPromise, OwnPromise
from upheaval.checkers.verdict import COUNTED, Finding, Report, Verdict
from upheaval.cli.output import presentation_of
from upheaval.cli.screen import Paint, Screen
from upheaval.records import RunFolder
from upheaval.report.moments import Moments


class Detail(Enum):
    """How much of a verdict is printed."""

    LINE = auto()
    """Its line and the run folder."""
    BAD = auto()
    """Also what is broken or unknown."""
    ALL = auto()
    """Also what was kept and what was not checked."""


HINT: Final = "--all shows them"
PAINTS: Final = {
    Verdict.VALID: Paint.GOOD,
    Verdict.TIMEOUT: Paint.DOUBTFUL,
    Verdict.UNKNOWN: Paint.DOUBTFUL,
    Verdict.INVALID: Paint.BAD,
}
_WIDTH: Final = max(len(verdict.text) for verdict in COUNTED) + 2
_INDENT: Final = " " * _WIDTH


def detail_asked() -> Detail:
    """By the options of the command."""
    presentation = presentation_of(sys.stdout)
    if presentation.is_verbose:
        return Detail.ALL
    return Detail.LINE if presentation.is_quiet else Detail.BAD


def verdict_text(report: Report, screen: Screen, detail: Detail = Detail.BAD) -> str:
    """As much of it as asked for, with the run's folder as its last line."""
    bad = [finding for finding in report.worst_first if finding.verdict is not Verdict.VALID]
    counts = Counter(finding.verdict for finding in bad)
    others = f"{len(report.findings) - len(bad)} kept, {len(report.unchecked)} not checked"
    others += "" if detail is Detail.ALL else f" ({HINT})"
    counted = [f"{counts[verdict]} {name}" for verdict, name in COUNTED.items() if counts[verdict]]
    if detail is Detail.LINE or not bad:
        lines = headline(report.verdict, ", ".join([*counted, others]), screen)
    else:
        lines = headline(report.verdict, ", ".join(counted), screen)
        moments = Moments(RunFolder(report.run))
        lines += [line for finding in bad for line in ["", *block(finding, moments, screen)]]
        if len(report.findings) > len(bad) or report.unchecked:
            lines += ["", *screen.folded(others)]
    if detail is Detail.BAD:
        lines += [line for gap in report.gaps for line in screen.folded(gap, indent=_INDENT)]
    if detail is Detail.ALL:
        lines += _others(report, screen)
    return "\n".join([*lines, str(Path(report.run).absolute())])


def headline(verdict: Verdict, counts: str, screen: Screen) -> list[str]:
    """The verdict, and the counts that belong to it."""
    first, *more = screen.folded(f"verdict: {verdict.text}, {counts}")
    return [first.replace(verdict.text, screen.painted(verdict.text, PAINTS[verdict]), 1), *more]


def block(finding: Finding, moments: Moments, screen: Screen) -> list[str]:
    """A finding: verdict and promise, the evidence, what its members reported, and where and when it was."""
    errors = [error.sentence(moments.start_ns) for error in finding.errors]
    sentences = (finding.detail, *finding.explained, *errors)
    lines = evidence_block(finding.verdict, finding.promise, sentences, screen)
    moment = moments.of(finding)
    places = [*finding.about, *([] if moment is None else [str(moment)])]
    return lines + (screen.folded(", ".join(places), first=_INDENT, indent=_INDENT) if places else [])


def failed_seed(seed: int, blocks: Sequence[Sequence[str]], again: str, folder: str = "") -> str:
    """Why a seed of a campaign failed: a block for each finding, the command that repeats the run, and its folder."""
    lines = [f"seed {seed}:", *(line for lines in blocks for line in lines), f"  again: {again}"]
    return "\n".join([*lines, *([f"  left: {folder}"] if folder else [])])


def evidence_block(verdict: Verdict, promise: AnyPromise, sentences: Sequence[str], screen: Screen) -> list[str]:
    """Verdict and promise, and the evidence below them."""
    lines = promise_lines(verdict, promise, screen)
    for sentence in sentences:
        lines += screen.folded(sentence, first=_INDENT, indent=_INDENT)
    return lines


def promise_lines(verdict: Verdict, promise: AnyPromise, screen: Screen) -> list[str]:
    """The verdict in its colour beside the promise, whose id says where it is looked up."""
    named = promise.sentence if isinstance(promise, OwnPromise) else f"{promise.sentence} [{promise}]"
    first, *more = screen.folded(named, first=f"{verdict.text:<{_WIDTH}}", indent=_INDENT)
    return [screen.painted(verdict.text, PAINTS[verdict]) + first[len(verdict.text) :], *more]


def _others(report: Report, screen: Screen) -> list[str]:
    """What was kept with its evidence, and what was not checked with the reason."""
    valid = [
        f"{finding.promise.sentence}: {finding.evidence}"
        for finding in report.findings
        if finding.verdict is Verdict.VALID
    ]
    unchecked = [f"{result.promise.sentence}: {result.why}" for result in report.unchecked]
    lines = []
    for title, texts, paint in (("kept", valid, Paint.GOOD), ("not checked", unchecked, Paint.STRONG)):
        if texts:
            lines += ["", screen.painted(f"{title}:", paint)]
            lines += [line for text in texts for line in screen.folded(text, first="  ", indent="    ")]
    return [*lines, ""] if lines else []
