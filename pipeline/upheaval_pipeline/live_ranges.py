"""Judges a range of positions of the log while it grows: members' logs are equal there, and have what was acknowledged.

The first member whose log is read is what the others are compared with, and what answers are looked up in; the lowest
one, of several in a batch. Frames are kept until every member was compared, entries until they are answered.
This module knows no files and no Spark.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from upheaval.checkers.evidence.logs import Difference
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.checkers.history.witness import LogEntry, acknowledged_not_lost
from upheaval.records import Function, Json
from upheaval_pipeline.facts import ANSWER, EXTENT, FRAME, Fact, Told, answer_of, operation_of
from upheaval_pipeline.tables import POSITION_RANGE

_Frame = list[int]
"""End, digest, id of its operation or -1, member."""


@dataclass
class Range:
    """What is known of it. JSON has texts as keys, so that members, positions and ids are texts here."""

    members: int
    reach: list[int] | None = None
    """From where to where the first log was read."""
    read: dict[str, list[int]] = field(default_factory=dict)
    """The same of each member."""
    frames: dict[str, _Frame] = field(default_factory=dict)
    entries: dict[str, list[Json]] = field(default_factory=dict)
    """Position, function, key and value, by the id of the operation."""
    answers: dict[str, list[Json]] = field(default_factory=dict)
    """Those whose place in the log was not read yet."""
    differing: list[int] = field(default_factory=list)
    """Members of which it was told."""

    def to_json(self) -> str:
        """As it is kept between batches."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def judge(self, number: int, facts: Iterable[Fact]) -> Told:
        """What more is known of the range with that number."""
        told = Told()
        base = number * POSITION_RANGE
        logs: dict[int, list[Fact]] = {}
        extents: dict[int, list[list[int]]] = {}
        for fact in facts:
            if fact.what == FRAME:
                logs.setdefault(fact.member, []).append(fact)
            elif fact.what == EXTENT:
                ends = [max(fact.begin, base), min(fact.end, base + POSITION_RANGE)]
                extents.setdefault(fact.member, []).append(ends)
            elif fact.what == ANSWER:
                self._answered(fact, told)
        for member, found in sorted(extents.items()):
            frames = sorted(logs.get(member, ()), key=lambda frame: frame.begin)
            for begin, end in sorted(found):
                self._read(member, begin, end, [frame for frame in frames if begin < frame.end <= end], told)
        self._look_up(told)
        self._forget()
        return told

    def _answered(self, fact: Fact, told: Told) -> None:
        self.answers[str(fact.id)] = answer_of(fact)
        told.answered += 1
        told.last_ns = max(told.last_ns, fact.ns)

    def _read(self, member: int, begin: int, end: int, frames: Sequence[Fact], told: Told) -> None:
        """A part of a member's log, which follows on the one before it unless the member lost its files."""
        known = self.read.get(str(member))
        self.read[str(member)] = [begin if known is None or known[1] != begin else known[0], end]
        if self.reach is None:
            self.reach = [begin, begin]
        self._compare(member, max(begin, self.reach[0]), min(end, self.reach[1]), frames, told)
        if begin <= self.reach[1] < end and member not in self.differing:
            for frame in frames:
                if frame.end > self.reach[1]:
                    self._take(frame)
            self.reach[1] = end

    def _take(self, frame: Fact) -> None:
        self.frames[str(frame.begin)] = [frame.end, frame.digest, frame.id, frame.member]
        if frame.f is not None:
            self.entries[str(frame.id)] = [frame.end, frame.f, frame.key, json.loads(frame.value or "null")]

    def _compare(self, member: int, begin: int, end: int, frames: Sequence[Fact], told: Told) -> None:
        """Tell of the first frame that ends there and is another one than in the first log."""
        if member in self.differing or begin >= end:
            return
        mine = {frame.begin: frame for frame in frames if begin < frame.end <= end}
        others = {int(at): frame for at, frame in self.frames.items() if begin < frame[0] <= end}
        for at in sorted({*mine, *others}):
            one, other = others.get(at), mine.get(at)
            if one is None or other is None or one[1] != other.digest:
                told.findings.append(self._difference(member, at, one, other))
                self.differing.append(member)
                return

    def _difference(self, member: int, at: int, one: _Frame | None, other: Fact | None) -> Finding:
        ids = (None if one is None else one[2], None if other is None else other.id)
        whose = one[3] if one is not None else next((frame[3] for frame in self.frames.values()), -1)
        texts = [_shown(each) for each in ids]
        what = f"{texts[0]} against {texts[1]}" if texts[0] != texts[1] else f"{texts[0]}, with other bytes"
        operation = next((each for each in ids if each is not None and each >= 0), None)
        difference = Difference((whose, member), at, f"differ at position {at}: {what}", operation)
        return Finding(Promise.LOGS_EQUAL, Verdict.INVALID, str(difference), difference.members, at, operation)

    def _look_up(self, told: Told) -> None:
        """Judge the answers whose place was read."""
        if self.reach is None:
            return
        begin, end = self.reach
        for number, answer in list(self.answers.items()):
            position = answer[5]
            assert isinstance(position, int)
            if not begin < position <= end:
                continue
            del self.answers[number]
            entry = self.entries.pop(number, None)
            found = {} if entry is None else {int(number): _entry(number, entry)}
            finding = acknowledged_not_lost([operation_of(answer)], found)
            told.judged += 1
            if finding.verdict is Verdict.INVALID:
                told.findings.append(finding)

    def _forget(self) -> None:
        """Frames that were compared with the logs of all members."""
        if len(self.read) == self.members:
            compared = min(end for _, end in self.read.values())
            self.frames = {at: frame for at, frame in self.frames.items() if frame[0] > compared}


def range_of(members: int, text: str | None) -> Range:
    """As `to_json` wrote it; a new one of None."""
    return Range(members) if text is None else Range(**json.loads(text))


def _entry(number: str, entry: Sequence[Any]) -> LogEntry:
    position, f, key, value = entry
    return LogEntry(position, int(number), Function(f), key, value)


def _shown(operation: int | None) -> str:
    if operation is None:
        return "no frame"
    return f"operation id={operation}" if operation >= 0 else "another frame"
