"""Steps of members as a sequence diagram of text: a lane for each, time downwards.

`templates/sequence.html` is the same as a picture.
"""

from collections.abc import Callable, Sequence
from typing import Final

from upheaval.report.elections import Election, Step
from upheaval_node.types import MS, S

_LANE: Final = 28
_TIME: Final = 12
_HEAD_AND_SPACES: Final = 6
"""What an arrow has besides its label: both lanes' lines, a head, and blanks."""


def moment(step: Step, election: Election) -> str:
    """Milliseconds since the election began."""
    return since(step, election.begin_ns)


def since(step: Step, begin_ns: int) -> str:
    """Milliseconds since a moment."""
    return f"+{(step.ns - begin_ns) / MS:.3f} ms"


def in_run(step: Step, start_ns: int) -> str:
    """Seconds since the run began."""
    return f"{(step.ns - start_ns) / S:.6f} s"


def label(step: Step) -> str:
    """The message's name, what it says, and the length of a row that it ends."""
    repeats = f" (last of {step.times})" if step.times > 1 else ""
    return f"{step.what} {step.detail}{repeats}"


def sequence_text(election: Election) -> str:
    """Arrows are messages; one that ends in x did not arrive."""
    return steps_text(election.steps, len(election.ballots), lambda step: moment(step, election))


def steps_text(steps: Sequence[Step], lanes: int, time: Callable[[Step], str]) -> str:
    """Steps of so many members, with their times. Lanes are as wide as the messages need."""
    width = max([_LANE, *(_width(step) for step in steps if step.to in range(lanes))])
    lines = [" " * _TIME + "".join(f"member {member_id}".center(width) for member_id in range(lanes)).rstrip()]
    for step in steps:
        row = list("|".center(width) * lanes)
        if step.to is None:
            begin = _center(step.member_id, width) - len(step.what) // 2
            row[begin : begin + len(step.what)] = step.what
        elif step.to in range(lanes):
            _draw(row, step, _center(step.member_id, width), _center(step.to, width))
        lines.append(f"{time(step):>{_TIME}}{''.join(row)}".rstrip())
    return "\n".join(lines)


def _width(step: Step) -> int:
    """Of a lane, for the label of a message between members that may be several lanes apart."""
    distance = abs((step.to or 0) - step.member_id) or 1
    return -(-(len(label(step)) + _HEAD_AND_SPACES) // distance)


def _center(member_id: int, width: int) -> int:
    return member_id * width + "|".center(width).index("|")


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
    return "refused" if step.is_refusal else "sent"
