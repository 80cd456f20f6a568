"""What the manifest says of why a run failed: by who ran it, and of what no other file of the run shows.

This module knows which verdict each of these is.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from upheaval.checkers.promises import Promise, promise_named
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Manifest, RunFolder

_BROKEN: Final[Mapping[Promise, Verdict]] = {
    Promise.INVARIANTS: Verdict.INVALID,
    Promise.TASKS_PASSED: Verdict.INVALID,
    Promise.TEST_PASSED: Verdict.INVALID,
    Promise.RUN_ENDED: Verdict.UNKNOWN,
    Promise.AS_DRAWN: Verdict.UNKNOWN,
}


def check_failures(run: RunFolder, manifest: Manifest) -> Iterator[Finding]:  # noqa: ARG001 - as all that judge files
    """A finding for each; none for a run about which nothing was written down."""
    for failure in manifest.failures:
        promise = promise_named(failure.promise)
        if promise is not None and promise in _BROKEN:
            yield Finding(promise, _BROKEN[promise], failure.detail)
        else:
            detail = f"the manifest has a failure of {failure.promise!r}, which this version does not know"
            yield Finding(Promise.RUN_ENDED, Verdict.UNKNOWN, detail)
