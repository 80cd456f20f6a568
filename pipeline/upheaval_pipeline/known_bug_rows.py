"""The known bugs of Aeron as rows, which the view `track_record` joins with the runs of their scenarios."""

from functools import cache
from typing import Final

from upheaval.execution.known_bugs import KNOWN_BUGS

KNOWN_BUGS_COLUMNS: Final = "issue string, version string, has_it boolean, promise string, scenario string"


@cache
def known_bug_rows() -> tuple[tuple[object, ...], ...]:
    """A row for each version that a bug is tried on; `scenario` is the title that its runs have."""
    return tuple(
        (str(bug.issue), version, version == bug.bad, str(bug.promise), bug.scenario(version).title)
        for bug in KNOWN_BUGS
        for version in bug.versions
    )
