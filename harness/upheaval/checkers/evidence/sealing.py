"""The promise that the files of a run have not changed since it was collected.

This module compares digests; it knows nothing of the files' content.
"""

import re
from collections.abc import Set
from typing import Final

from upheaval.checkers.checker import Checker, Source
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Broken, Finding, NotApplicable, Result, Verdict
from upheaval.errors import UsageError
from upheaval.records import Manifest, RunFolder, digest_of_text, jsonfields, read_seal, seal_of

_MEMBER: Final = re.compile(r"member-(\d+)/")


def check_seal(evidence: Evidence) -> list[Result]:
    """Not applicable to a run that goes on; unknown for one that is over and has no seal."""
    run, manifest = evidence.run, evidence.manifest
    try:
        if manifest.sealed is None and not run.seal_file.exists():
            if not evidence.is_over:
                return [NotApplicable(Promise.EVIDENCE_SEALED, "not sealed: the run goes on, or nothing collected it")]
            raise Broken(Verdict.UNKNOWN, "not sealed, although the run is over: its files may have changed since")
        detail = _compared(run, manifest)
    except Broken as broken:
        return [broken.finding(Promise.EVIDENCE_SEALED)]
    return [Finding(Promise.EVIDENCE_SEALED, Verdict.VALID, detail)]


def _compared(run: RunFolder, manifest: Manifest) -> str:
    if manifest.sealed is None:
        raise Broken(Verdict.UNKNOWN, f"{run.seal_file.name} is there, and the manifest does not name it")
    if not run.seal_file.is_file():
        raise Broken(Verdict.UNKNOWN, f"{run.seal_file.name} is missing: the manifest says that the run was sealed")
    text = jsonfields.read_text(run.seal_file)
    if digest_of_text(text) != manifest.sealed:
        raise Broken(Verdict.INVALID, f"{run.seal_file.name} is not the one that the manifest names")
    try:
        then = read_seal(run, text)
        now = seal_of(run)
    except (OSError, UsageError) as error:
        raise Broken(Verdict.UNKNOWN, f"the seal cannot be compared: {error}") from error
    changed = {name for name in then.files.keys() & now.files.keys() if then.files[name] != now.files[name]}
    if then.manifest != now.manifest:
        changed.add(run.manifest_file.name)
    _require_none(changed, Verdict.INVALID, "changed")
    _require_none(now.files.keys() - then.files.keys(), Verdict.INVALID, "added")
    _require_none(then.files.keys() - now.files.keys(), Verdict.UNKNOWN, "removed")
    return f"{len(then.files)} files are as they were when the run was collected"


def _require_none(names: Set[str], verdict: Verdict, what: str) -> None:
    if not names:
        return
    first = min(names)
    others = f" (and {len(names) - 1} more)" if len(names) > 1 else ""
    raise Broken(verdict, f"{first} was {what} after the run was collected{others}", members=_members(names))


def _members(names: Set[str]) -> tuple[int, ...]:
    matches = (_MEMBER.match(name) for name in names)
    return tuple(sorted({int(match[1]) for match in matches if match}))


SEALING: Final = Checker("sealing", (Promise.EVIDENCE_SEALED,), frozenset(Source), check_seal)
