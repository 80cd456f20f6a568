"""`upheaval report`: one run as one HTML page that needs nothing else: the verdict, then what happened, to look into.

What the charts show lies in the page as JSON (`scene`). Whatever came from the run is escaped.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from upheaval.checkers.services.raised import RaisedBy
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.records import Manifest
from upheaval.report.document import LIBRARY, document, section, shipped, table
from upheaval.report.election_drawing import sequence_svg
from upheaval.report.elections import Election, log_of, votes_of
from upheaval.report.figures import CatchUp, FaultFigures, Figures, duration
from upheaval.report.scene import Scene

ELECTIONS_DRAWN: Final = 30
"""The page shall not grow with a run that elects for ever: `upheaval elections RUN N` has the rest."""
SCRIPTS: Final = (LIBRARY, shipped("drawing.js", "time_line.js", "details.js", "page.js"))
"""What runs in the page: uPlot, and our own."""
_MARKS = {Verdict.VALID: "✓", Verdict.INVALID: "✗", Verdict.UNKNOWN: "?", Verdict.TIMEOUT: "…"}


def page(
    manifest: Manifest,
    report: Report,
    figures: Figures,
    raised: Sequence[RaisedBy] = (),
    elections: Sequence[Election] = (),
    *,
    scene: Scene,
) -> str:
    """The whole document; `scene` is what its charts show."""
    verdict = report.verdict.text
    main = f"""<header>
<h1>Upheaval</h1><span class="badge {verdict}">{_MARKS[report.verdict]} {verdict}</span>
<span class="where">{escape(_what(manifest))}</span>
</header>
{_cards(figures)}
{section("Verdict", _verdict(report))}
{section("What happened", shipped("time_line.html") + _left_out(figures, scene))}
{section("What services raised", _raised(raised)) if raised else ""}
{section("Faults", _faults(figures.faults)) if figures.faults else ""}
{section("Elections", _elections(elections)) if elections else ""}
{section("Catching up", _catch_ups(figures.catch_ups)) if figures.catch_ups else ""}
{section("Messages between members", shipped("messages.html"))}
<footer>{escape(_origin(manifest))}</footer>"""
    return document(f"Upheaval: {verdict}", main, scene, SCRIPTS)


def _what(manifest: Manifest) -> str:
    parts = [f"{manifest.members} members of {manifest.system}", f"{manifest.runtime} runtime"]
    parts += [f"profile {manifest.profile}", f"sync level {manifest.sync_level}", f"components {manifest.components}"]
    if manifest.service:
        parts.append(f"service {manifest.service}")
    if manifest.seed is not None:
        parts.append(f"seed {manifest.seed}")
    return " · ".join(parts)


def _origin(manifest: Manifest) -> str:
    return f"Run {manifest.run_id}, made {manifest.created} on {manifest.host} by upheaval {manifest.version}."


def _cards(figures: Figures) -> str:
    outage = max((end - begin for begin, end in figures.gaps), default=None)
    leaders = [fault.new_leader_ns for fault in figures.faults if fault.new_leader_ns is not None]
    cells = [
        (f"{figures.counts['ok']:,}", "operations acknowledged"),
        (f"{figures.counts['unknown']:,}", "with unknown outcome"),
        (f"{figures.rate:,.0f}", "answers a second"),
    ]
    if figures.latency:
        cells.append((duration(figures.latency[0]), "median latency"))
        cells.append((duration(figures.latency[1]), "99th percentile"))
    cells.append((duration(outage) if outage else "none", "longest time without an answer"))
    if leaders:
        cells.append((duration(max(leaders)), "fault to new leader"))
    shown = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in cells
    )
    return f'<div class="cards">{shown}</div>'


def _left_out(figures: Figures, scene: Scene) -> str:
    """In words, which operations the page has, where it has not all of them."""
    count, outcomes = sum(figures.counts.values()), scene["operations"]["outcome"]
    if len(outcomes) == count:
        return ""
    open_ones, open_shown = count - figures.counts["ok"], len(outcomes) - outcomes.count("ok")
    return (
        f'<p class="note">{len(outcomes):,} of {count:,} operations are in this page: {open_shown:,} of the '
        f"{open_ones:,} that failed or are unknown, the slowest, those next to begins and ends of faults, and an even "
        "sample of the others. Counts, p50, p99 and answers a second are those of all.</p>"
    )


def _verdict(report: Report) -> str:
    """What is not valid, then what was not checked; the evidence of what is valid is there to be opened."""
    bad = [finding for finding in report.worst_first if finding.verdict is not Verdict.VALID]
    valid = [finding for finding in report.worst_first if finding.verdict is Verdict.VALID]
    unchecked = "; ".join(f"{row.promise.sentence} ({row.why})" for row in report.unchecked)
    shown = _promises(bad) if bad else ""
    if valid:
        head = f"{len(valid)} {'promises are' if len(valid) > 1 else 'promise is'} kept"
        shown += f"<details><summary>{head}: evidence</summary>{_promises(valid)}</details>"
    if unchecked:
        shown += f'<p class="note"><b>{len(report.unchecked)} not checked:</b> {escape(unchecked)}</p>'
    return shown


def _promises(findings: Sequence[Finding]) -> str:
    rows = [
        f"<tr><td>{escape(f.promise.sentence)}</td>"
        f'<td class="v {f.verdict.text}">{_MARKS[f.verdict]} {f.verdict.text}</td>'
        f"<td>{escape(f.evidence)}</td></tr>"
        for f in findings
    ]
    return table(("promise", "verdict", "evidence"), rows, "promises")


def _raised(raised: Sequence[RaisedBy]) -> str:
    """One row for each place of a service's code, with the traceback that came first in the log."""
    by_place: dict[str, list[RaisedBy]] = {}
    for exception in raised:
        by_place.setdefault(exception.raised.where, []).append(exception)
    rows = []
    for where, group in by_place.items():
        owners = ", ".join(sorted({exception.facts.folder for exception in group}))
        times = max(exception.raised.count for exception in group)
        first = group[0].raised
        cells = f'<td>{escape(where)}</td><td>{escape(owners)}</td><td class="n">{times}</td>'
        rows.append(f"<tr>{cells}<td><pre>{escape(first.traceback or first.error)}</pre></td></tr>")
    return table(("where", "on", "at least so often", "traceback"), rows)


def _faults(faults: Sequence[FaultFigures]) -> str:
    heads = (
        "fault",
        "at",
        "healed after",
        "new leader",
        "first answer",
        "p50 / p99 before",
        "during",
        "after",
    )
    rows = []
    for f in faults:
        healed = "never" if f.end is None else duration(f.end - f.begin)
        cells = [f"{f.what} {f.where}", duration(f.begin), healed, _after(f.new_leader_ns), _after(f.first_answer_ns)]
        cells += [_pair(f.before), _pair(f.during), _pair(f.after)]
        shown = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
        rows.append(f'<tr>{shown}</tr><tr><td class="evidence" colspan="{len(heads)}">{escape(f.evidence)}</td></tr>')
    return table(heads, rows, "faults")


def _elections(elections: Sequence[Election]) -> str:
    """Each with a link to its diagram, as far as they are drawn."""
    rows, pictures = [], []
    for election in elections:
        is_drawn = election.number <= ELECTIONS_DRAWN
        number = f'<a href="#election-{election.number}">{election.number}</a>' if is_drawn else str(election.number)
        took = "–" if election.end_ns is None else duration(election.end_ns - election.begin_ns)  # noqa: RUF001 - a dash
        cells = [
            duration(election.begin_ns),
            str(election.term_id),
            f"member {election.candidate_id}",
            log_of(election),
            election.outcome,
        ]
        shown = "".join(f'<td class="n">{escape(cell)}</td>' for cell in (*cells, took))
        place = f'<button type="button" data-election="{election.number}">show</button>'
        rows.append(
            f"<tr><td>{number} {place}</td><td>{escape(election.cause.partition(':')[0])}</td>{shown}"
            f"<td>{escape(votes_of(election))}</td></tr>"
        )
        if is_drawn:
            candidacy = f"member {election.candidate_id} stands for term {election.term_id}"
            head = f"election {election.number}: {candidacy}: {election.outcome}"
            why = f" ({election.why})" if election.why else ""
            pictures.append(
                # A link opens what its target lies in.
                f"<details><summary>{escape(head + why)}</summary>"
                f'<div id="election-{election.number}">{sequence_svg(election)}</div></details>'
            )
    heads = ("n", "cause", "at", "term", "candidate", "its log", "outcome", "took", "votes")
    return table(heads, rows, "elections") + "".join(pictures)


def _catch_ups(catch_ups: Sequence[CatchUp]) -> str:
    rows = []
    for one in catch_ups:
        size = one.to_position - one.from_position
        cells = [f"member {one.member}", duration(one.begin), duration(one.end - one.begin), f"{size:,}"]
        cells.append(f"{one.rate:,.0f}")
        rows.append("<tr>" + "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells) + "</tr>")
    return table(("member", "at", "for", "bytes of the log", "bytes a second"), rows)


def _after(ns: int | None) -> str:
    return "–" if ns is None else f"after {duration(ns)}"  # noqa: RUF001 - a dash in a table


def _pair(latencies: tuple[float, float] | None) -> str:
    return "–" if latencies is None else " / ".join(duration(value) for value in latencies)  # noqa: RUF001
