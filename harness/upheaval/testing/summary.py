"""The end of pytest's output: which tests passed without a valid run or a fault, and what failed tests left.

Reports carry all of it in properties, so that those of other processes (pytest-xdist) count, too.
"""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pytest

from upheaval.checkers.verdict import Verdict
from upheaval.testing.run_folders import last_lines_of

RUN_PROPERTY: Final = "upheaval_run"
REPLAY_PROPERTY: Final = "upheaval_replay"
VERDICT_PROPERTY: Final = "upheaval_verdict"
FAULTS_PROPERTY: Final = "upheaval_faults"
"""How many faults a passed test with the fixture `chaos` had."""
NOT_JUDGED: Final = "not judged"
"""In place of the verdict on a run that had to be none."""
WITH_GAPS: Final = "valid with gaps"
"""A valid run with promises that could not be judged, although it gives occasion."""
UNENDED: Final = "its run did not end in order"
_ENDS: Final = (
    (Verdict.INVALID.text, "passed with verdict invalid, as verify=False allows (-v names them)"),
    (Verdict.UNKNOWN.text, 'passed with verdict unknown: upheaval_verify = "valid" fails such tests (-v names them)'),
    (Verdict.TIMEOUT.text, 'passed with verdict timeout: upheaval_verify = "valid" fails such tests (-v names them)'),
    (WITH_GAPS, "passed with a promise that could not be judged (-v names them)"),
    (NOT_JUDGED, "ended without a verdict (-v names them)"),
)
"""What is counted, worst first."""


def summary_lines(stats: Mapping[str, Sequence[object]], *, is_verbose: bool) -> Iterator[str]:
    """The lines, from the reports of a session by their category."""
    reports = [one for some in stats.values() for one in some if isinstance(one, pytest.TestReport)]
    failed = (one for outcome in ("failed", "error") for one in stats.get(outcome, ()))
    properties = {one.nodeid: dict(one.user_properties) for one in failed if isinstance(one, pytest.TestReport)}
    verdicts = {report.nodeid: text for report in reports if (text := _verdict_of(report))}
    others = {nodeid: text for nodeid, text in verdicts.items() if nodeid not in properties}
    yield from _of_verdicts(others, len(verdicts), is_verbose=is_verbose)
    yield from _of_chaos(reports, is_verbose=is_verbose)
    yield from _of_failed(properties)


def _verdict_of(report: pytest.TestReport) -> str:
    return str(dict(report.user_properties).get(VERDICT_PROPERTY, ""))


def _of_verdicts(verdicts: Mapping[str, str], tests: int, *, is_verbose: bool) -> Iterator[str]:
    """A count for each kind of verdict but valid, and the tests: those whose run did not end in order in any case."""
    counts = Counter(text.partition(":")[0] for text in verdicts.values())
    for kind, what in _ENDS:
        if counts[kind]:
            yield f"{counts[kind]} of {tests} tests with a cluster {what}"
        for nodeid, text in verdicts.items():
            if text.partition(":")[0] == kind and (is_verbose or UNENDED in text):
                yield f"    {nodeid}: {text}"


def _of_chaos(reports: Sequence[pytest.TestReport], *, is_verbose: bool) -> Iterator[str]:
    """How many of the passed tests that asked for faults had none."""
    faults = {
        report.nodeid: count
        for report in reports
        for name, count in report.user_properties
        if name == FAULTS_PROPERTY and report.passed
    }
    calm = [nodeid for nodeid, count in faults.items() if not count]
    if calm:
        yield f"{len(calm)} of {len(faults)} passed tests with chaos had no fault (-v names them)"
        yield from (f"    {nodeid}" for nodeid in calm if is_verbose)


def _of_failed(properties: Mapping[str, Mapping[str, object]]) -> Iterator[str]:
    """How the run of each failed test is replayed and judged, and the last log lines of its members."""
    for nodeid, values in properties.items():
        if REPLAY_PROPERTY in values:
            folder = str(values[RUN_PROPERTY])
            yield f"{nodeid} left runs/{Path(folder).name}: {values[REPLAY_PROPERTY]}"
            yield f"    what it left is judged by: {shlex.join(['upheaval', 'verify', folder])}"
            for line in last_lines_of(folder):
                yield f"    {line}"
