"""The known bugs of Aeron as rows, which the view `track_record` joins with the runs of their scenarios."""

from functools import cache
from typing import Final

from upheaval.aeron_jars import SHA256
from upheaval.execution.known_bugs import KNOWN_BUGS

KNOWN_BUGS_COLUMNS: Final = "issue string, version string, has_it boolean, promise string, scenario string"


@cache
def known_bug_rows() -> tuple[tuple[object, ...], ...]:
    """A row for each bug and pinned version. `has_it` is null where only runs say so; `scenario` is the title that the
    runs have.
    """
    return tuple(
        (str(bug.issue), version, bug.has_it(version), str(bug.promise), title)
        for bug, title in ((bug, bug.scenario(bug.bad).title) for bug in KNOWN_BUGS)
        for version in SHA256
    )
