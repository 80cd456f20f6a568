"""`upheaval report`: one run as one HTML page that needs nothing else: the verdict, then what happened, to look into.

The page contains what its charts show as JSON (`scene`). Everything that comes from the run is escaped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Final

from upheaval.checkers.services.raised import RaisedBy
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.records import Manifest
from upheaval.report.document import LIBRARY, document, section, shipped, table
from upheaval.report.election_drawing import sequence_svg
from upheaval.report.elections import Election, log_of, votes_of
from upheaval.report.figures import CatchUp, FaultFigures, Figures, duration
from upheaval.report.moments import Moment, beside_fault
from upheaval.report.scene import Scene
from upheaval_node.types import S

ELECTIONS_DRAWN: Final = 30
"""The page shall not grow with a run that elects for ever: `upheaval elections RUN N` has the rest."""
SCRIPTS: Final = (LIBRARY, shipped("drawing.js", "time_line.js", "details.js", "page.js"))
"""What runs in the page: uPlot, and our own."""
_NO_MOMENTS: Final[Mapping[Finding, Moment]] = MappingProxyType({})
_MARKS = {Verdict.VALID: "✓", Verdict.INVALID: "✗", Verdict.UNKNOWN: "?", Verdict.TIMEOUT: "…"}
_BAD: Final = {Verdict.INVALID: "broken", Verdict.UNKNOWN: "unknown", Verdict.TIMEOUT: "timed out"}


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
) -> str:
    """The whole document; `scene` is what its charts show, `moments` are those of findings, as far as known."""
    verdict = report.verdict.text
    name = made_by.name or manifest.run_id
    main = f"""<header>
<h1>{escape(name)}</h1><span class="badge {verdict}">{_MARKS[report.verdict]} {verdict}</span>
<span class="where">{escape(_what(manifest))}</span>
</header>
{_answer(report, figures, moments)}
{section("Verdict", _verdict(report, moments))}
{_cards(figures)}
{section("What happened", shipped("time_line.html") + _left_out(figures, scene))}
{section("What services raised", _raised(raised)) if raised else ""}
{section("Faults", _faults(figures.faults)) if figures.faults else ""}
{section("Elections", _elections(elections)) if elections else ""}
{section("Catching up", _catch_ups(figures.catch_ups)) if figures.catch_ups else ""}
{section("Messages between members", shipped("messages.html"))}
{section("Run it again", _command(made_by.command)) if made_by.command else ""}
<footer>{escape(_origin(manifest))}</footer>"""
    title = " · ".join(part for part in (f"{_MARKS[report.verdict]} {verdict}: {name}", manifest.created[:10]) if part)
    return document(f"{title} · Upheaval", main, scene, SCRIPTS)


def _answer(report: Report, figures: Figures, moments: Mapping[Finding, Moment]) -> str:
    """What broke, when and beside which fault, in a sentence; of a valid run what its verdict rests on."""
    bad = [finding for finding in report.worst_first if finding.verdict is not Verdict.VALID]
    valid_count = len(report.findings) - len(bad)
    if not bad:
        text = f"Promises: {valid_count} kept, {len(report.unchecked)} not checked."
        return f'<p class="answer valid">{text}</p>'
    worst = [finding for finding in bad if finding.verdict is bad[0].verdict]
    # A moment that is exact says most; that of a position alone is the first answer after it, and may be far away.
    first = min(worst, key=lambda finding: _rank(moments.get(finding)))
    words = f"<b>{escape(first.promise.sentence)}</b>: {_BAD[first.verdict]}"
    if first in moments:
        near = beside_fault(moments[first], figures.faults)
        words += f" {_link_to(moments[first])}{escape(f', {near}') if near else ''}"
    more = f' <a href="#verdict">{len(bad) - 1} more</a> below.' if len(bad) > 1 else ""
    return f'<p class="answer {first.verdict.text}">{words}. {escape(first.evidence)}.{more}</p>'


def _rank(moment: Moment | None) -> tuple[bool, bool, int]:
    return (moment is None, moment is not None and not moment.is_exact, 0 if moment is None else moment.ns)


def _link_to(moment: Moment) -> str:
    return f'<a href="#t={moment.ns / S:.6f}">{escape(str(moment))}</a>'


def _command(command: str) -> str:
    return (
        f'<p class="command"><code>{escape(command)}</code> <button type="button" data-copy="{escape(command)}">copy'
        "</button></p>"
    )


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
    """A simulated run is the same whenever and wherever it is made, so it has no date and no host."""
    parts = [("made", manifest.created), ("on", manifest.host), ("by upheaval", manifest.version)]
    return " ".join([f"Run {manifest.run_id}", *(f"{word} {value}" for word, value in parts if value)]) + "."


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


def _verdict(report: Report, moments: Mapping[Finding, Moment]) -> str:
    """What is not valid, then what was not checked; the evidence of what is valid is there to be opened."""
    bad = [finding for finding in report.worst_first if finding.verdict is not Verdict.VALID]
    valid = [finding for finding in report.worst_first if finding.verdict is Verdict.VALID]
    shown = _promises(bad, moments) if bad else ""
    if valid:
        head = f"{len(valid)} {'promises are' if len(valid) > 1 else 'promise is'} kept"
        shown += f"<details><summary>{head}: evidence</summary>{_promises(valid, moments)}</details>"
    if report.unchecked:
        rows = [f"<tr><td>{escape(r.promise.sentence)}</td><td>{escape(r.why)}</td></tr>" for r in report.unchecked]
        reasons = table(("promise", "why it was not checked"), rows, "promises")
        shown += f"<details><summary>{len(rows)} not checked: reasons</summary>{reasons}</details>"
    return shown


def _promises(findings: Sequence[Finding], moments: Mapping[Finding, Moment]) -> str:
    rows = [
        f"<tr><td>{escape(f.promise.sentence)}</td>"
        f'<td class="v {f.verdict.text}">{_MARKS[f.verdict]} {f.verdict.text}</td>'
        f"<td>{escape(f.evidence)}{_places(f, moments)}</td></tr>"
        for f in findings
    ]
    return table(("promise", "verdict", "evidence"), rows, "promises")


def _places(finding: Finding, moments: Mapping[Finding, Moment]) -> str:
    """Links to the moment and to the operation, as far as the page has them."""
    links = [_link_to(moments[finding])] if finding in moments else []
    if finding.operation is not None and finding in moments:
        links.append(f'<a href="#op-{finding.operation}">operation {finding.operation}</a>')
    return f'<br><span class="places">{" · ".join(links)}</span>' if links else ""


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
            candidacy = f"member {election.candidate_id} is a candidate in term {election.term_id}"
            head = f"election {election.number}: {candidacy}: {election.outcome}"
            why = f" ({election.why})" if election.why else ""
            pictures.append(
                # A link opens the element that holds its target.
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
