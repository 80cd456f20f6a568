"""`upheaval report`: one run as one HTML page that needs nothing else: the verdict, then what happened, to look into.

The page contains what its charts show as JSON (`scene`). Everything that comes from the run is escaped.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.checkers.services.raised import RaisedBy
from upheaval.checkers.verdict import COUNTED, Finding, Report, Verdict
from upheaval.records import Manifest
from upheaval.report.document import LIBRARY, document, environment, shipped
from upheaval.report.election_drawing import arrow_style, in_run, label, since
from upheaval.report.elections import Election, log_of, votes_of
from upheaval.report.explanation import Explanation, in_order
from upheaval.report.fault_table import fault_table
from upheaval.report.figures import Figures, duration
from upheaval.report.moments import Moment, beside_fault
from upheaval.report.scene import Scene

ELECTIONS_DRAWN: Final = 30
"""The page shall not grow with a run that elects for ever: `upheaval elections RUN N` has the rest."""
RATED_MIN: Final = 10
"""Of fewer answers a rate says nothing."""
SCRIPTS: Final = (LIBRARY, shipped("drawing.js", "labels.js", "time_line.js", "details.js", "page.js"))
"""What runs in the page: uPlot, and our own."""
_NO_MOMENTS: Final[Mapping[Finding, Moment]] = MappingProxyType({})
_MARKS = {Verdict.VALID: "✓", Verdict.INVALID: "✗", Verdict.UNKNOWN: "?", Verdict.TIMEOUT: "…"}
_TEMPLATES: Final = environment(
    Path(__file__).parent / "templates",
    {
        "arrow_style": arrow_style,
        "duration": duration,
        "in_run": in_run,
        "label": label,
        "log_of": log_of,
        "mark": _MARKS.__getitem__,
        "since": since,
        "votes_of": votes_of,
    },
)
_BAD: Final = {Verdict.INVALID: "Broken promise", Verdict.UNKNOWN: "Unknown", Verdict.TIMEOUT: "Timed out"}


@dataclass(frozen=True, slots=True)
class MadeBy:
    """What made a run: a scenario, a test or a seed by its name, and the command that makes it again, if one does."""

    name: str = ""
    command: str = ""


def page(
    manifest: Manifest,
    report: Report,
    figures: Figures,
    raised: Sequence[RaisedBy] = (),
    elections: Sequence[Election] = (),
    *,
    scene: Scene,
    made_by: MadeBy = MadeBy(),
    moments: Mapping[Finding, Moment] = _NO_MOMENTS,
    account: Explanation | None = None,
    start_ns: int | None = None,
) -> str:
    """The whole document; `scene` is what its charts show, `moments` are those of findings, as far as known,
    `account` is that of the first one, and `start_ns` the start of the run on its clock.
    """
    bad = in_order([finding for finding in report.findings if finding.verdict is not Verdict.VALID], moments)
    first = bad[0] if bad else None
    return document(
        _TEMPLATES,
        "run.html",
        scene,
        SCRIPTS,
        name=made_by.name or manifest.run_id,
        what=_what(manifest),
        origin=_origin(manifest),
        command=made_by.command,
        manifest=manifest,
        report=report,
        bad=bad,
        bad_words=_BAD,
        broken=[finding for finding in bad if finding.verdict is Verdict.INVALID],
        undecided=[finding for finding in bad if finding.verdict is not Verdict.INVALID],
        counted=_counted,
        valid=[finding for finding in report.worst_first if finding.verdict is Verdict.VALID],
        first=first,
        second=_consequence(bad),
        near=beside_fault(moments[first], figures.faults) if first is not None and first in moments else "",
        moments=moments,
        account=account,
        start_ns=start_ns,
        cards=_cards(figures),
        left_out=_left_out(figures, scene),
        raised=_by_place(raised),
        figures=figures,
        fault_table=fault_table(figures),
        elections=elections,
        election_begins=[drawn["begin"] for drawn in scene["elections"]],
        drawn=ELECTIONS_DRAWN,
    )


def _by_place(raised: Sequence[RaisedBy]) -> Mapping[str, Sequence[RaisedBy]]:
    """By the place in a service's code, with what came first in the log first."""
    by_place: dict[str, list[RaisedBy]] = {}
    for exception in raised:
        by_place.setdefault(exception.raised.where, []).append(exception)
    return by_place


def _consequence(bad: Sequence[Finding]) -> Finding | None:
    """The promise that broke next; none where only the invariants did, which say the same in general words."""
    broken = (finding for finding in bad[1:] if finding.verdict is Verdict.INVALID)
    return next((finding for finding in broken if finding.promise is not Promise.INVARIANTS), None)


def _counted(findings: Sequence[Finding]) -> str:
    """As in `1 broken, 7 unknown`."""
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{count} {COUNTED[verdict]}" for verdict, count in sorted(counts.items(), reverse=True))


def _what(manifest: Manifest) -> str:
    parts = [f"{manifest.members} members of {manifest.system}", f"{manifest.runtime} runtime"]
    parts += [f"profile {manifest.profile}", f"sync level {manifest.sync_level}", f"components {manifest.components}"]
    if manifest.service:
        parts.append(f"service {manifest.service}")
    if manifest.seed is not None:
        parts.append(f"seed {manifest.seed}")
    if manifest.planted:
        parts.append(f"planted bug {manifest.planted}")
    return " · ".join(parts)


def _origin(manifest: Manifest) -> str:
    """A simulated run is the same at any time and on any host, so it has no date and no host."""
    parts = [("made", manifest.created), ("on", manifest.host), ("by upheaval", manifest.version)]
    return " ".join([f"Run {manifest.run_id}", *(f"{word} {value}" for word, value in parts if value)]) + "."


def _cards(figures: Figures) -> Sequence[tuple[str, str]]:
    outage = max((end - begin for begin, end in figures.gaps), default=None)
    leaders = [fault.new_leader_ns for fault in figures.faults if fault.new_leader_ns is not None]
    cells = [
        (f"{figures.counts['ok']:,}", "operations acknowledged"),
        (f"{figures.counts['unknown']:,}", "with unknown outcome"),
    ]
    if figures.counts["ok"] >= RATED_MIN:
        cells.append((f"{figures.rate:,.0f}", "answers a second"))
    if figures.latency:
        cells.append((duration(figures.latency[0]), "median latency"))
        cells.append((duration(figures.latency[1]), "99th percentile"))
    cells.append((duration(outage) if outage else "none", "longest time without an answer"))
    if leaders:
        cells.append((duration(max(leaders)), "fault to new leader"))
    return cells


def _left_out(figures: Figures, scene: Scene) -> str:
    """In words, which operations the page has, where it has not all of them."""
    count, outcomes = sum(figures.counts.values()), scene["operations"]["outcome"]
    if len(outcomes) == count:
        return ""
    open_ones, open_shown = count - figures.counts["ok"], len(outcomes) - outcomes.count("ok")
    return (
        f"{len(outcomes):,} of {count:,} operations are in this page: {open_shown:,} of the "
        f"{open_ones:,} that failed or are unknown, the slowest, those next to begins and ends of faults, and an even "
        "sample of the others. Counts, p50, p99 and answers a second are those of all."
    )
