"""Steps of members as a sequence diagram of text: a lane for each, time downwards.

`templates/sequence.html` is the same as a picture.
"""

from collections.abc import Sequence
from typing import Final

from upheaval.report.elections import REFUSALS, VOTE, Election, Step
from upheaval_node.types import MS

_LANE: Final = 28
_TIME: Final = 12


def moment(step: Step, election: Election) -> str:
    """Milliseconds since the election began."""
    return since(step, election.begin_ns)


def since(step: Step, begin_ns: int) -> str:
    """Milliseconds since a moment."""
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
        lines.append(f"{since(step, begin_ns):>{_TIME}}{''.join(row)}".rstrip())
    return "\n".join(lines)


def _center(member_id: int) -> int:
    return member_id * _LANE + "|".center(_LANE).index("|")


def _draw(row: list[str], step: Step, source: int, target: int) -> None:
    low, high = min(source, target) + 1, max(source, target) - 1
    words = f" {label(step)} "[: high - low]
    line = words.center(high - low + 1, "-")
    end = (">" if target > source else "<") if step.has_arrived else "x"
    row[low : high + 1] = f"{line[:-1]}{end}" if target > source else f"{end}{line[1:]}"


def arrow_style(step: Step) -> str:
    """The CSS class of a message: lost, refused (a vote) or sent."""
    if not step.has_arrived:
        return "lost"
    return "refused" if step.what == VOTE and any(step.detail.endswith(answer) for answer in REFUSALS) else "sent"
