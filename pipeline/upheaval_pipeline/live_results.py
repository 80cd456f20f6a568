"""Judges the answers of one key while its log grows, by the model that `upheaval verify` judges by.

The model is run on the entries of the key in the order of the log; what it gives waits for the answer, or the answer
for it. The state is that of the key in the service, and what is still waiting. This module knows no files and no Spark.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field

from upheaval.checkers.history.model import Model, same
from upheaval.checkers.verdict import Finding
from upheaval.checkers.history.witness import wrong_result
from upheaval.records import Function, Json
from upheaval_pipeline.facts import ANSWER, FRAME, Fact, Moment, Told, answer_of, operation_of


@dataclass
class Key:
    """What is known of one; JSON has texts as keys, so that ids of operations are texts here."""

    registers: dict[str, Json] = field(default_factory=dict)
    lists: dict[str, list[Json]] = field(default_factory=dict)
    applied: int = 0
    """The position up to which the model was run."""
    expected: dict[str, list[Json]] = field(default_factory=dict)
    """Until when it is kept, position, and what the answer should be; of a list its length then."""
    answers: dict[str, list[Json]] = field(default_factory=dict)
    """Until when it is kept, and the operation."""

    def to_json(self) -> str:
        """As it is kept between batches."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @property
    def waits_until_ms(self) -> int | None:
        """Until when what waits first is kept; None when nothing waits."""
        return min((int(str(each[0])) for each in (*self.expected.values(), *self.answers.values())), default=None)

    def judge(self, facts: Iterable[Fact], moment: Moment) -> Told:
        """What more is known of the key."""
        self.give_up(moment.watermark_ms)
        told = Told()
        frames: dict[int, Fact] = {}
        for fact in facts:
            if fact.what == FRAME and fact.end > self.applied:
                known = frames.setdefault(fact.end, fact)
                frames[fact.end] = min(known, fact, key=lambda frame: frame.member)
            elif fact.what == ANSWER:
                self.answers[str(fact.id)] = [moment.patience_ms, answer_of(fact)]
        model = Model()
        model.registers, model.lists = self.registers, self.lists
        for position in sorted(frames):
            frame = frames[position]
            value = json.loads(frame.value or "null")
            expected = model.apply(Function(str(frame.f)), str(frame.key), value)
            kept: Json = len(expected) if frame.f == Function.LIST and isinstance(expected, list) else expected
            self.expected[str(frame.id)] = [moment.patience_ms, position, kept]
            self.applied = position
        told.findings += self._compared()
        return told

    def _compared(self) -> Iterable[Finding]:
        for number in [number for number in self.answers if number in self.expected]:
            _, told = self.answers.pop(number)
            _, position, expected = self.expected.pop(number)
            assert isinstance(told, list)
            assert isinstance(position, int)
            operation = operation_of(told)
            if operation.f is Function.LIST:
                expected = self.lists.get(operation.key, [])[: int(str(expected))]
            if not same(operation.result, expected):
                yield wrong_result(operation, position, expected)

    def give_up(self, watermark_ms: int) -> None:
        """Forget what waited too long."""
        self.expected = {number: each for number, each in self.expected.items() if int(str(each[0])) > watermark_ms}
        self.answers = {number: each for number, each in self.answers.items() if int(str(each[0])) > watermark_ms}


def key_of(text: str | None) -> Key:
    """As `to_json` wrote it; a new one of None."""
    return Key() if text is None else Key(**json.loads(text))
