"""One election as a sequence diagram: a lane for each member, time downwards; as text, and as inline SVG."""

from collections.abc import Sequence
from html import escape
from typing import Final

from upheaval.report.elections import REFUSALS, VOTE, Election, Step
from upheaval_node.types import MS

_LANE: Final = 28
_TIME: Final = 12
_SVG_LANE, _SVG_LEFT, _SVG_ROW, _SVG_TOP = 250, 90, 24, 34
_HEAD: Final = 7


def moment(step: Step, election: Election) -> str:
    """Milliseconds since the election began."""
    return _since(step, election.begin_ns)


def _since(step: Step, begin_ns: int) -> str:
    return f"+{(step.ns - begin_ns) / MS:.3f} ms"


def label(step: Step) -> str:
    """What a message says, in a few words."""
    return step.detail if step.what == VOTE else f"{step.what} {step.detail}"


def sequence_text(election: Election) -> str:
    """Arrows are messages; one that ends in x did not arrive."""
    return steps_text(election.steps, len(election.ballots), election.begin_ns)


def steps_text(steps: Sequence[Step], lanes: int, begin_ns: int) -> str:
    """Steps of so many members, with the milliseconds since a moment."""
    lines = [" " * _TIME + "".join(f"member {member_id}".center(_LANE) for member_id in range(lanes)).rstrip()]
    for step in steps:
        row = list("|".center(_LANE) * lanes)
        if step.to is None:
            begin = _center(step.member_id) - len(step.what) // 2
            row[begin : begin + len(step.what)] = step.what
        elif step.to in range(lanes):
            _draw(row, step, _center(step.member_id), _center(step.to))
        lines.append(f"{_since(step, begin_ns):>{_TIME}}{''.join(row)}".rstrip())
    return "\n".join(lines)


def _center(member_id: int) -> int:
    return member_id * _LANE + "|".center(_LANE).index("|")


def _draw(row: list[str], step: Step, source: int, target: int) -> None:
    low, high = min(source, target) + 1, max(source, target) - 1
    words = f" {label(step)} "[: high - low]
    line = words.center(high - low + 1, "-")
    end = (">" if target > source else "<") if step.has_arrived else "x"
    row[low : high + 1] = f"{line[:-1]}{end}" if target > source else f"{end}{line[1:]}"


def sequence_svg(election: Election) -> str:
    """The same as a picture; colours are CSS classes of the page."""
    lanes = len(election.ballots)
    width, height = _SVG_LEFT + lanes * _SVG_LANE, _SVG_TOP + (len(election.steps) + 1) * _SVG_ROW
    name = f"election {election.number}: member {election.candidate_id} is a candidate in term {election.term_id}"
    shapes = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(name)}">']
    for member_id in range(lanes):
        x = _lane_x(member_id)
        shapes.append(f'<text x="{x}" y="18" class="name" text-anchor="middle">member {member_id}</text>')
        shapes.append(f'<line x1="{x}" y1="{_SVG_TOP - 8}" x2="{x}" y2="{height}" class="lane"/>')
    for index, step in enumerate(election.steps):
        y = _SVG_TOP + (index + 1) * _SVG_ROW - 6
        shapes.append(
            f'<text x="{_SVG_LEFT - 8}" y="{y}" class="tick" text-anchor="end">{moment(step, election)}</text>'
        )
        if step.to is None:
            shapes.append(_state(step, y))
        elif step.to in range(lanes):
            shapes += _arrow(step, y)
    return "\n".join([*shapes, "</svg>"])


def _lane_x(member_id: int) -> int:
    return _SVG_LEFT + member_id * _SVG_LANE + _SVG_LANE // 2


def _state(step: Step, y: int) -> str:
    hint = f"<title>{escape(step.detail)}</title>" if step.detail else ""
    place = f'x="{_lane_x(step.member_id)}" y="{y}" text-anchor="middle"'
    return f'<text {place} class="entered">{hint}{escape(step.what)}</text>'


def _arrow(step: Step, y: int) -> list[str]:
    assert step.to is not None
    begin, end = _lane_x(step.member_id), _lane_x(step.to)
    towards = 1 if end > begin else -1
    style = "lost" if not step.has_arrived else "refused" if step.what == VOTE and _is_refusal(step) else "sent"
    text = label(step) if step.has_arrived else f"{label(step)} (lost)"
    tip = end - towards * 2
    points = f"{tip},{y} {tip - towards * _HEAD},{y - 4} {tip - towards * _HEAD},{y + 4}"
    return [
        f'<line x1="{begin}" y1="{y}" x2="{tip}" y2="{y}" class="message {style}"/>',
        f'<polygon points="{points}" class="head {style}"/>',
        f'<text x="{begin + towards * 12}" y="{y - 5}" class="on {style}" '
        f'text-anchor="{"start" if towards > 0 else "end"}">{escape(text)}</text>',
    ]


def _is_refusal(step: Step) -> bool:
    return any(step.detail.endswith(answer) for answer in REFUSALS)
