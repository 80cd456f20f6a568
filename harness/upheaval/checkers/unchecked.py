"""Demands that a run leaves unanswered."""

from collections.abc import Collection, Iterable, Iterator

from upheaval.checkers.verdict import Finding, NotApplicable, Verdict


def left_out(named: Collection[str], unchecked: Iterable[NotApplicable]) -> Iterator[Finding]:
    """What was named as what a run is there to judge, and gave no occasion to, is unknown."""
    missing = (each for each in unchecked if each.promise in named)
    return (Finding(each.promise, Verdict.UNKNOWN, f"not checked: {each.why}") for each in missing)
