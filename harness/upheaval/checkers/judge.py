"""Judges a run from its folder alone: runs every checker, and makes sure that each promise has exactly one answer.

A promise is unknown if its checker gives no answer, answers twice, answers another checker's promise, or raises; the
finding names the checker. Silence is never green. A promise is also unknown if its checker needs a file that the run
had when it began and that is now missing: that checker is not called. Judging needs no running cluster.
"""

import contextlib
import gc
import os
import stat
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Final

from upheaval.checkers.checker import Checker, Source, sources_of
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.severe_errors import with_severe_errors
from upheaval.checkers.known_bugs import recognised
from upheaval.checkers.own.interpreters import shared_interpreters
from upheaval.checkers.promises import AnyPromise, OwnPromise, Promise
from upheaval.checkers.table import CHECKERS
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Result, Verdict
from upheaval.errors import HarnessError, UsageError
from upheaval.records import Manifest, RunFolder

CRASH_FILE: Final = "judge-crash.txt"
"""Tracebacks of checkers that raised. Not evidence, so not sealed."""


def verify_run(path: str | PathLike[str]) -> Report:
    """Check every promise on the run in a folder.

    Raises `UsageError` for a folder that is no run folder or holds a malformed file.
    """
    return verify_folder(RunFolder(path, at_rest=True))


def verify_folder(run: RunFolder) -> Report:
    """Check every promise on a run folder at rest. Raises as `verify_run`."""
    _require_no_pipe(run.path)
    with _no_collector():
        return judge(Evidence(run))


def verify_to_first_failure(run: RunFolder) -> Report:
    """Check the promises on a run folder at rest, cheapest checkers first, until a finding fails a test of the run.

    The checkers that run no user code go first, together. Those that do follow one at a time. The report has what was
    judged by then. Raises as `verify_run`.
    """
    without_code = [checker for checker in CHECKERS if Source.CODE not in checker.needs]
    with_code = [[checker] for checker in CHECKERS if Source.CODE in checker.needs]
    evidence = Evidence(run)
    findings: list[Finding] = []
    unchecked: list[NotApplicable] = []
    with _no_collector(), shared_interpreters():
        for checkers in (without_code, *with_code):
            part = judge(evidence, checkers)
            findings += part.findings
            unchecked += part.unchecked
            if any(finding.fails_test for finding in part.findings):
                break
    return Report(str(run.path), tuple(findings), tuple(unchecked))


def judge(evidence: Evidence, checkers: Sequence[Checker] = CHECKERS) -> Report:
    """Run each checker and make sure that each promise has one answer. Raises `UsageError` for a malformed file."""
    manifest = evidence.manifest
    answers = _Answers(evidence.run)
    missing = _missing_sources(evidence.run, manifest)
    with shared_interpreters():
        for checker in checkers:
            lost = [name for source, name in missing.items() if source in checker.needs]
            if lost:
                answers.miss(checker, lost[0])
            else:
                answers.take(checker, evidence)
    answers.settle(checkers)
    demanded = frozenset(manifest.demanded)
    results = [_demanded(result, demanded) for result in answers.results]
    findings = [result for result in results if isinstance(result, Finding)]
    # Traces are read only for findings that may be known bugs.
    traces = evidence.traces if any(finding.signature for finding in findings) else ()
    known = recognised(findings, (*manifest.systems_before, manifest.system), traces)
    return Report(
        str(evidence.run.path),
        with_severe_errors(evidence.run, known),
        tuple(result for result in results if isinstance(result, NotApplicable)),
    )


def _missing_sources(run: RunFolder, manifest: Manifest) -> Mapping[Source, str]:
    """Sources with a file that existed when the run began and is now missing, with that file's name."""
    lost = [name for name in manifest.written if not (run.path / name).exists()]
    return {source: name for name in lost for source in sources_of(name)}


def _demanded(result: Result, demanded: Collection[str]) -> Result:
    """Turn "not applicable" into unknown for a promise that the run was made to judge."""
    if isinstance(result, NotApplicable) and result.promise in demanded:
        return Finding(result.promise, Verdict.UNKNOWN, f"not checked: {result.why}")
    return result


class _Answers:
    """The results so far, one per promise."""

    def __init__(self, run: RunFolder) -> None:
        self.results: list[Result] = []
        self._run = run
        self._places: dict[AnyPromise, int] = {}
        self._why_silent: dict[Promise, str] = {}

    def take(self, checker: Checker, evidence: Evidence) -> None:
        """Run a checker and record its answers. An exception that is not a `HarnessError` is a defect of the
        checker.
        """
        try:
            results = list(checker.check(evidence))
        except HarnessError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the promise was not judged
            self._keep(checker, traceback.format_exc())
            why = f"checker {checker.name!r} raised {type(error).__name__}: {error} (traceback in {CRASH_FILE})"
            self._why_silent.update(dict.fromkeys(checker.promises, " ".join(why.split())))
            return
        for result in results:
            is_its_own = isinstance(result.promise, OwnPromise) or result.promise in checker.promises
            self._add(result, checker, is_its_own=is_its_own)

    def miss(self, checker: Checker, name: str) -> None:
        """Make the checker's promises unknown: without that file, finding nothing wrong would prove nothing."""
        why = f"{name} is missing, which was there when the run began"
        for promise in checker.promises:
            self._add(Finding(promise, Verdict.UNKNOWN, why), checker, is_its_own=True)

    def _add(self, result: Result, checker: Checker, *, is_its_own: bool) -> None:
        place = self._places.setdefault(result.promise, len(self.results))
        if place == len(self.results):
            self.results.append(result)
            if is_its_own:
                return
            why = f"checker {checker.name!r} answered it, which is not one of its promises"
        else:
            why = f"checker {checker.name!r} answered it again"
        for known in (self.results[place], result):
            # A broken promise stays broken, whatever else is wrong.
            if isinstance(known, Finding) and known.verdict is Verdict.INVALID:
                self.results[place] = known
                return
        self.results[place] = Finding(result.promise, Verdict.UNKNOWN, why)

    def settle(self, checkers: Sequence[Checker]) -> None:
        """Make every promise without an answer unknown."""
        names = {promise: checker.name for checker in checkers for promise in checker.promises}
        for promise in Promise:
            if promise not in self._places:
                why = f"checker {names[promise]!r} gave no answer" if promise in names else "no checker answers it"
                self.results.append(Finding(promise, Verdict.UNKNOWN, self._why_silent.get(promise, why)))

    def _keep(self, checker: Checker, text: str) -> None:
        """Keep the traceback. In a read-only folder it is dropped."""
        with contextlib.suppress(OSError), (self._run.path / CRASH_FILE).open("a", encoding="utf-8") as stream:
            stream.write(f"checker {checker.name!r}:\n{text}\n")


def _require_no_pipe(folder: Path) -> None:
    """Raises `UsageError` for a named pipe, which would be read for ever."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with contextlib.suppress(OSError):
                if stat.S_ISFIFO(path.stat().st_mode):
                    raise UsageError(f"{path} is a named pipe: a run folder has files alone")


@contextmanager
def _no_collector() -> Iterator[None]:
    """Switch off the cyclic garbage collector: it would scan millions of objects again and again and find no cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
