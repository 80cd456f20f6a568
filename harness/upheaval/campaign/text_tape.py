"""The text of a scenario as a tape, and back: one span per line, with its numbers as choices."""

import re
from collections.abc import Iterator
from typing import Final

from upheaval.campaign.edits import edited
from upheaval.campaign.tape import Fields, Span, TapeReader
from upheaval.records import Json

_NUMBER: Final = re.compile(r"(?<=[ =])\d+(?= |$)")
_HOLE: Final = "{}"
_GRAIN_MS: Final = 100
_MOST: Final = 10**9
_FIXED: Final = ("title", "cluster", "promise")
"""Lines whose numbers must not be lowered one by one, as those of `wait sent`, which name what was sent."""
_BEGINS: Final = ("inject", "begin")
_OF_FAULT: Final = (*_BEGINS, "heal", "end")


def tape_of_text(text: str) -> dict[str, Json]:
    """The tape of a text, without comments and empty lines."""
    spans: list[Json] = []
    for statement in (line.partition("#")[0].strip() for line in text.split("\n")):
        if _is_fixed(statement):
            spans.append({"statement": statement})
        elif statement:
            statement = " ".join(statement.split())
            numbers = [int(number) for number in _NUMBER.findall(statement)]
            labelled = {f"number-{place}": number for place, number in enumerate(numbers)}
            spans.append({"statement": _NUMBER.sub(_HOLE, statement), **labelled})
    return {"line": spans}


def _is_fixed(statement: str) -> bool:
    words = statement.split()[:2]
    return words == ["wait", "sent"] or (bool(words) and words[0] in _FIXED)


def read_text_tape(tape: Fields) -> Span:
    """Read a tape. Numbers are lowered to 1 at least, times in milliseconds to multiples of 100; a written 0 stays."""
    reader = TapeReader(tape)
    for line in reader.spans("line"):
        statement = str(line.fields.get("statement", ""))
        line.one_of("statement", (statement,))
        if _is_fixed(statement):
            continue
        for place, before in enumerate(statement.split(_HOLE)[:-1]):
            label = f"number-{place}"
            least = 0 if line.fields.get(label) == 0 else 1
            line.number(label, least, _MOST, grain=_GRAIN_MS if before.endswith("-ms=") else 1)
    return reader.read


def text_of_tape(span: Span) -> str:
    """The text of a tape, original or edited."""
    lines = []
    for line in span.spans:
        statement, *numbers = (str(choice.value) for choice in line.choices)
        parts = statement.split(_HOLE) if numbers else [statement]
        lines.append("".join(part for pair in zip(parts, [*numbers, ""], strict=True) for part in pair))
    return "\n".join([*lines, ""])


def without_faults(span: Span) -> Iterator[Fields]:
    """Leave out all faults at once, then each fault: its begin, its end, and the waits between them or not."""
    lines: dict[str, list[int]] = {}
    for number, line in enumerate(span.spans, start=1):
        words = str(line.choices[0].value).split()
        if len(words) > 1 and words[0] in _OF_FAULT:
            lines.setdefault(words[1], []).append(number)
    if len(lines) > 1:
        yield edited(span, removed=frozenset(number for numbers in lines.values() for number in numbers))
    for numbers in lines.values():
        yield edited(span, removed=frozenset(range(numbers[0], numbers[-1] + 1)))
        yield edited(span, removed=frozenset(numbers))
