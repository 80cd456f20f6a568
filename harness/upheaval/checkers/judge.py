"""Judges a run from its folder alone: every checker of the table, and every promise answered exactly once.

A checker that answers nothing, answers twice, answers for another one or raises makes its promises unknown, with its
name: silence is never green. So does a file that the run had when it began, and that a checker needs: without it the
checker is not called. No cluster is needed, and none has to be alive.
"""

import contextlib
import gc
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Final

from upheaval.checkers.checker import FILES, Checker, Source
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.known_bugs import recognised
from upheaval.checkers.own.interpreters import shared_interpreters
from upheaval.checkers.promises import AnyPromise, OwnPromise, Promise
from upheaval.checkers.table import CHECKERS
from upheaval.checkers.verdict import Finding, NotApplicable, Report, Result, Verdict
from upheaval.errors import HarnessError
from upheaval.records import Manifest, RunFolder

CRASH_FILE: Final = "judge-crash.txt"
"""Where the tracebacks of checkers go that raised. No part of the evidence: it is not sealed."""


def verify_run(path: str | PathLike[str]) -> Report:
    """Check every promise on the run in a folder.

    Raises `UsageError` for a folder that is no run folder or holds a malformed file.
    """
    return verify_folder(RunFolder(path, at_rest=True))


def verify_folder(run: RunFolder) -> Report:
    """The same of a run folder at rest."""
    with _no_collector():
        return judge(Evidence(run))


def broken_promises(run: RunFolder) -> Sequence[Finding]:
    """The broken promises that the cheapest checkers find of a run at rest; none when all others are kept, too.

    Checkers that run code of the user's are asked one after the other, after all that run none. Raises as `verify_run`.
    """
    without_code = [each for each in CHECKERS if Source.CODE not in each.needs]
    with_code = [[each] for each in CHECKERS if Source.CODE in each.needs]
    evidence = Evidence(run)
    with _no_collector(), shared_interpreters():
        for checkers in (without_code, *with_code):
            findings = judge(evidence, checkers).findings
            if broken := [each for each in findings if each.verdict is Verdict.INVALID]:
                return broken
    return ()


def judge(evidence: Evidence, checkers: Sequence[Checker] = CHECKERS) -> Report:
    """Run each checker, and see to it that each promise has one answer. Raises `UsageError` for a malformed file."""
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
    findings = [each for each in results if isinstance(each, Finding)]
    return Report(
        str(evidence.run.path),
        recognised(findings, (*manifest.systems_before, manifest.system)),
        tuple(each for each in results if isinstance(each, NotApplicable)),
    )


def _missing_sources(run: RunFolder, manifest: Manifest) -> Mapping[Source, str]:
    """Each source with a file that was there when the run began, and is not."""
    named = ((source, name) for source, patterns in FILES.items() for name in manifest.written if name in patterns)
    return {source: name for source, name in named if not (run.path / name).exists()}


def _demanded(result: Result, demanded: Collection[str]) -> Result:
    """A promise that the run is there to judge, and that gave no occasion to, is unknown."""
    if isinstance(result, NotApplicable) and result.promise in demanded:
        return Finding(result.promise, Verdict.UNKNOWN, f"not checked: {result.why}")
    return result


class _Answers:
    """The results so far, one for each promise."""

    def __init__(self, run: RunFolder) -> None:
        self.results: list[Result] = []
        self._run = run
        self._places: dict[AnyPromise, int] = {}
        self._why_silent: dict[Promise, str] = {}

    def take(self, checker: Checker, evidence: Evidence) -> None:
        """What a checker answers. What it raises beside errors of the harness is a defect of the checker."""
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
        """Without that file silence of a checker would say nothing."""
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
            # Whatever else is wrong, a broken promise stays broken.
            if isinstance(known, Finding) and known.verdict is Verdict.INVALID:
                self.results[place] = known
                return
        self.results[place] = Finding(result.promise, Verdict.UNKNOWN, why)

    def settle(self, checkers: Sequence[Checker]) -> None:
        """What has no answer is unknown."""
        names = {promise: checker.name for checker in checkers for promise in checker.promises}
        for promise in Promise:
            if promise not in self._places:
                why = f"checker {names[promise]!r} gave no answer" if promise in names else "no checker answers it"
                self.results.append(Finding(promise, Verdict.UNKNOWN, self._why_silent.get(promise, why)))

    def _keep(self, checker: Checker, text: str) -> None:
        """A folder that may only be read loses the traceback, and nothing else."""
        with contextlib.suppress(OSError), (self._run.path / CRASH_FILE).open("a", encoding="utf-8") as stream:
            stream.write(f"checker {checker.name!r}:\n{text}\n")


@contextmanager
def _no_collector() -> Iterator[None]:
    """Without the collector of cycles: of millions of objects without one it would look at all again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
