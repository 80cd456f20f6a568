"""`upheaval report`: one run as one HTML page that needs nothing else: verdicts, time line, latency, throughput.

No script and no fetch: a content security policy in the page forbids both. Whatever came from the run is escaped.
"""

from collections.abc import Sequence
from html import escape
from typing import Final

from upheaval.checkers.raised import RaisedBy
from upheaval.checkers.verdict import Report, Verdict
from upheaval.records import Manifest
from upheaval.report import drawing
from upheaval.report.drawing import duration
from upheaval.report.election_drawing import sequence_svg
from upheaval.report.elections import Election, log_of, votes_of
from upheaval.report.figures import CatchUp, FaultFigures, Figures

ELECTIONS_DRAWN: Final = 30
"""The page shall not grow with a run that elects for ever: `upheaval elections RUN N` has the rest."""
_MARKS = {Verdict.VALID: "✓", Verdict.INVALID: "✗", Verdict.UNKNOWN: "?", Verdict.TIMEOUT: "…"}

STYLE = """
:root { color-scheme: light dark; --page:#f6f7f9; --card:#fff; --ink:#1b2430; --soft:#5d6b7c; --rule:#e1e6ec;
  --leader:#2563c9; --follower:#a9c4ea; --election:#f2b43c; --down:#d3d8df; --onfollower:#17365f; --onelection:#4a3200;
  --ondown:#59636f; --fault:#d63b3b; --valid:#1a7f4b; --invalid:#c62828; --unknown:#9a6700; --p50:#2563c9;
  --p99:#c2570c; --area:#2563c9; }
@media (prefers-color-scheme: dark) { :root { --page:#0f141a; --card:#171e26; --ink:#e4eaf1; --soft:#93a1b2;
  --rule:#2a333e; --leader:#4a8bf0; --follower:#2c4d7c; --election:#c98f1f; --down:#29313b; --onfollower:#d5e4fa;
  --onelection:#1d1500; --ondown:#8b97a5; --fault:#ff6b6b; --valid:#4ccb8a; --invalid:#ff7b72; --unknown:#e3b341;
  --p50:#6ea8ff; --p99:#ff9d5c; --area:#4a8bf0; } }
* { box-sizing: border-box; }
body { margin:0; padding:32px 20px 48px; background:var(--page); color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif; }
main { max-width:1140px; margin:auto; }
header { display:flex; flex-wrap:wrap; gap:8px 18px; align-items:center; margin-bottom:22px; }
h1 { font-size:26px; margin:0; letter-spacing:-.01em; } h2 { font-size:16px; margin:0 0 12px; }
.badge { padding:4px 16px; border-radius:99px; color:#fff; font-weight:650; }
@media (prefers-color-scheme: dark) { .badge { color:#0b0f14; } }
.badge.valid { background:var(--valid); } .badge.invalid { background:var(--invalid); }
.badge.unknown,.badge.timeout { background:var(--unknown); }
.where { color:var(--soft); flex-basis:100%; overflow-wrap:anywhere; }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px; margin-bottom:18px; }
.card,section { background:var(--card); border:1px solid var(--rule); border-radius:12px; }
.card { padding:14px 16px; } .card b { display:block; font-size:23px; line-height:1.25;
  font-variant-numeric:tabular-nums; }
.card span { color:var(--soft); font-size:13px; }
section { padding:18px 20px; margin-bottom:18px; overflow-x:auto; }
svg { display:block; width:100%; min-width:760px; height:auto; }
svg text { font:12px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif; fill:var(--soft); }
svg .name { fill:var(--ink); font-weight:600; } svg .tick { font-size:11px; }
svg .state { stroke:var(--card); stroke-width:1; } svg .on { font-size:11.5px; font-weight:600; pointer-events:none; }
.leader { fill:var(--leader); background:var(--leader); }
.follower { fill:var(--follower); background:var(--follower); }
.election { fill:var(--election); background:var(--election); } .down { fill:var(--down); background:var(--down); }
svg .on.leader { fill:#fff; } svg .on.follower { fill:var(--onfollower); } svg .on.election { fill:var(--onelection); }
svg .on.down { fill:var(--ondown); }
svg .fault { fill:var(--fault); fill-opacity:.11; } svg .faultedge { stroke:var(--fault); stroke-width:1.5; }
svg .faultname { fill:var(--fault); font-weight:650; }
svg .term { stroke:var(--ink); stroke-width:1; stroke-dasharray:2 3; opacity:.55; } svg .termdot { fill:var(--ink); }
svg .grid { stroke:var(--rule); } svg .axis { stroke:var(--soft); opacity:.6; }
svg .area { fill:var(--area); fill-opacity:.3; stroke:var(--area); stroke-width:1.6; stroke-linejoin:round; }
svg .line { fill:none; stroke-width:1.9; stroke-linejoin:round; stroke-linecap:round; }
svg .p50 { stroke:var(--p50); } svg .p99 { stroke:var(--p99); } svg .hover { fill:transparent; }
svg .hover:hover { fill:var(--soft); fill-opacity:.18; }
.key { display:flex; flex-wrap:wrap; gap:4px 18px; color:var(--soft); font-size:13px; margin:0 0 10px; padding:0; }
.key i { display:inline-block; width:13px; height:13px; border-radius:3px; margin-right:6px; vertical-align:-2px; }
.key .p50 { background:var(--p50); } .key .p99 { background:var(--p99); }
.key .faulted { background:color-mix(in srgb,var(--fault) 30%,transparent); border-left:2px solid var(--fault); }
table { border-collapse:collapse; width:100%; }
th { text-align:left; color:var(--soft); font-weight:600; font-size:13px; }
th,td { padding:8px 14px 8px 0; border-bottom:1px solid var(--rule); vertical-align:top; overflow-wrap:anywhere; }
.elections th { overflow-wrap:normal; } .promises td:first-child { min-width:13em; }
tr:last-child td { border-bottom:0; } td.v { white-space:nowrap; font-weight:650; overflow-wrap:normal; }
td.v.valid { color:var(--valid); } td.v.invalid { color:var(--invalid); }
td.v.unknown,td.v.timeout { color:var(--unknown); } td.n { font-variant-numeric:tabular-nums; white-space:nowrap; }
svg .lane { stroke:var(--rule); } svg .entered { fill:var(--ink); font-size:11px; paint-order:stroke;
  stroke:var(--card); stroke-width:5px; }
svg .message { stroke:var(--leader); stroke-width:1.4; } svg .head,svg .on.sent { fill:var(--leader); }
svg .message.refused { stroke:var(--p99); } svg .refused { fill:var(--p99); }
svg .message.lost { stroke:var(--fault); stroke-dasharray:4 3; } svg .lost { fill:var(--fault); }
summary { cursor:pointer; padding:8px 0; overflow-wrap:anywhere; }
pre { margin:0; white-space:pre-wrap; font-size:12.5px; }
footer { color:var(--soft); font-size:13px; overflow-wrap:anywhere; }
"""

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(
    manifest: Manifest,
    report: Report,
    figures: Figures,
    raised: Sequence[RaisedBy] = (),
    elections: Sequence[Election] = (),
) -> str:
    """The whole document."""
    verdict = report.verdict.text
    title = f"Upheaval: {verdict}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<main>
<header>
<h1>Upheaval</h1><span class="badge {verdict}">{_MARKS[report.verdict]} {verdict}</span>
<span class="where">{escape(_what(manifest))}</span>
</header>
{_cards(figures)}
{_section("What happened", _STATES + drawing.timeline(figures))}
{_section("Answers a second", drawing.throughput(figures))}
{_section("Latency", _LATENCY_KEY + drawing.latency(figures))}
{_section("Promises", _promises(report))}
{_section("What services raised", _raised(raised)) if raised else ""}
{_section("Faults", _faults(figures.faults)) if figures.faults else ""}
{_section("Elections", _elections(elections)) if elections else ""}
{_section("Catching up", _catch_ups(figures.catch_ups)) if figures.catch_ups else ""}
<footer>{escape(_origin(manifest))}</footer>
</main>
</body>
</html>
"""


_STATES = (
    '<p class="key"><span><i class="leader"></i>leader</span><span><i class="follower"></i>follower</span>'
    '<span><i class="election"></i>election</span><span><i class="down"></i>down</span>'
    '<span><i class="faulted"></i>fault, until it was healed</span><span>┊ a term begins</span></p>'
)
_LATENCY_KEY = (
    '<p class="key"><span><i class="p50"></i>median</span><span><i class="p99"></i>99th percentile</span>'
    "<span>a gap: nothing was answered</span></p>"
)


def _what(manifest: Manifest) -> str:
    parts = [f"{manifest.members} members", f"{manifest.runtime} runtime", f"profile {manifest.profile}"]
    parts += [f"sync level {manifest.sync_level}", f"components {manifest.components}"]
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


def _section(title: str, content: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{content}\n</section>"


def _promises(report: Report) -> str:
    rows = [
        f"<tr><td>{escape(f.promise.sentence)}</td>"
        f'<td class="v {f.verdict.text}">{_MARKS[f.verdict]} {f.verdict.text}</td>'
        f"<td>{escape(f.evidence)}</td></tr>"
        for f in report.worst_first
    ]
    rows += [
        f'<tr><td>{escape(each.promise.sentence)}</td><td class="v">not checked</td><td>{escape(each.why)}</td></tr>'
        for each in report.unchecked
    ]
    return _table(("promise", "verdict", "evidence"), rows, "promises")


def _raised(raised: Sequence[RaisedBy]) -> str:
    """One row for each place of a service's code, with the traceback that came first in the log."""
    by_place: dict[str, list[RaisedBy]] = {}
    for each in raised:
        by_place.setdefault(each.raised.where, []).append(each)
    rows = []
    for where, group in by_place.items():
        owners = ", ".join(sorted({each.facts.folder for each in group}))
        times = max(each.raised.count for each in group)
        first = group[0].raised
        cells = f'<td>{escape(where)}</td><td>{escape(owners)}</td><td class="n">{times}</td>'
        rows.append(f"<tr>{cells}<td><pre>{escape(first.traceback or first.error)}</pre></td></tr>")
    return _table(("where", "on", "at least so often", "traceback"), rows)


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
        "evidence",
    )
    rows = []
    for f in faults:
        healed = "never" if f.end is None else duration(f.end - f.begin)
        cells = [f"{f.what} {f.where}", duration(f.begin), healed, _after(f.new_leader_ns), _after(f.first_answer_ns)]
        cells += [_pair(f.before), _pair(f.during), _pair(f.after)]
        shown = "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells)
        rows.append(f"<tr>{shown}<td>{escape(f.evidence)}</td></tr>")
    return _table(heads, rows)


def _elections(elections: Sequence[Election]) -> str:
    """Each with a link to its diagram, as far as they are drawn."""
    rows, pictures = [], []
    for each in elections:
        is_drawn = each.number <= ELECTIONS_DRAWN
        number = f'<a href="#election-{each.number}">{each.number}</a>' if is_drawn else str(each.number)
        took = "–" if each.end_ns is None else duration(each.end_ns - each.begin_ns)  # noqa: RUF001 - a dash
        cells = [duration(each.begin_ns), str(each.term_id), f"member {each.candidate_id}", log_of(each), each.outcome]
        shown = "".join(f'<td class="n">{escape(cell)}</td>' for cell in (*cells, took))
        rows.append(
            f"<tr><td>{number}</td><td>{escape(each.cause.partition(':')[0])}</td>{shown}"
            f"<td>{escape(votes_of(each))}</td></tr>"
        )
        if is_drawn:
            head = f"election {each.number}: member {each.candidate_id} stands for term {each.term_id}: {each.outcome}"
            why = f" ({each.why})" if each.why else ""
            pictures.append(
                # A link opens what its target lies in.
                f"<details><summary>{escape(head + why)}</summary>"
                f'<div id="election-{each.number}">{sequence_svg(each)}</div></details>'
            )
    heads = ("n", "cause", "at", "term", "candidate", "its log", "outcome", "took", "votes")
    return _table(heads, rows, "elections") + "".join(pictures)


def _catch_ups(catch_ups: Sequence[CatchUp]) -> str:
    rows = []
    for one in catch_ups:
        size = one.to_position - one.from_position
        cells = [f"member {one.member}", duration(one.begin), duration(one.end - one.begin), f"{size:,}"]
        cells.append(f"{one.rate:,.0f}")
        rows.append("<tr>" + "".join(f'<td class="n">{escape(cell)}</td>' for cell in cells) + "</tr>")
    return _table(("member", "at", "for", "bytes of the log", "bytes a second"), rows)


def _after(ns: int | None) -> str:
    return "–" if ns is None else f"after {duration(ns)}"  # noqa: RUF001 - a dash in a table


def _pair(latencies: tuple[float, float] | None) -> str:
    return "–" if latencies is None else " / ".join(duration(value) for value in latencies)  # noqa: RUF001


def _table(heads: Sequence[str], rows: Sequence[str], style: str = "") -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f'<table class="{style}"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
