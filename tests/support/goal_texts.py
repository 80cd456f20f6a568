"""Hand-made traces of goals, from the texts in tests/data/goals.

A text has a section for each goal. Its lines are events of members in the order of time, 100 ms apart unless the line
has the word `same`. Lines with `+` are only in the trace that reaches the goal, lines with `-` only in the one that
does not.
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from upheaval.campaign.goals.traced_run import TracedRun
from upheaval.records import Json, SessionEnd, TraceEvent
from upheaval.records.session_ends import SessionCause
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, S

TEXTS = Path(__file__).resolve().parents[1] / "data" / "goals"
STEP_NS = 100 * MS
MEMBERS = 3
NAMES = {
    "term": "leadership_term_id",
    "for": "candidate_term_id",
    "by": "candidate_member_id",
    "voter": "follower_member_id",
    "logterm": "log_leadership_term_id",
    "at": "log_position",
    "append": "append_position",
    "leader": "leader_member_id",
}
DEFAULTS: Mapping[str, Json] = {
    **dict.fromkeys(NAMES.values(), 0),
    "candidate_member_id": 0,
    "leader_member_id": -1,
    "component": "all",
}


def read_texts() -> dict[str, list[str]]:
    """The lines of each goal, by its name."""
    texts: dict[str, list[str]] = {}
    for path in sorted(TEXTS.glob("*.txt")):
        for section in path.read_text(encoding="utf-8").split("\n# "):
            name, *lines = section.removeprefix("# ").splitlines()
            assert name not in texts, name
            texts[name] = [line for line in lines if line]
    return texts


def traced(lines: list[str], only: str) -> TracedRun:
    """The run of the lines without a mark and those with the mark `only`."""
    made = _Made()
    for line in lines:
        mark, _, rest = line.partition(" ")
        if mark in ("+", "-"):
            if mark == only:
                made.add(rest)
        else:
            made.add(line)
    traces = [made.traces.get(member_id, []) for member_id in range(made.members)]
    return TracedRun.from_traces(
        traces, companions=[made.companion], faults=made.faults, session_ends=made.session_ends
    )


@dataclass
class _Made:
    members: int = MEMBERS
    ns: int = S
    traces: dict[int, list[TraceEvent]] = field(default_factory=dict)
    companion: list[TraceEvent] = field(default_factory=list)
    faults: list[FaultRecord] = field(default_factory=list)
    session_ends: list[SessionEnd] = field(default_factory=list)

    def add(self, line: str) -> None:
        who, *words = shlex.split(line)
        pairs = dict(word.split("=", 1) for word in words if "=" in word)
        self.ns += 0 if "same" in words else STEP_NS
        match who:
            case "members":
                self.members = int(words[0])
            case "wait":
                self.ns += int(words[0]) * S
            case "fault":
                self.faults.append(self._fault(words[0], pairs))
            case "session":
                followed = int(pairs["followed"]) if "followed" in pairs else None
                self.session_ends.append(SessionEnd(1, int(pairs["opened"]), self.ns, SessionCause(words[0]), followed))
            case "companion":
                self.companion.append(self._event(words[0], pairs))
            case _:
                self.traces.setdefault(int(who), []).append(self._of_member(words, pairs))

    def _of_member(self, words: list[str], pairs: dict[str, str]) -> TraceEvent:
        match words[0]:
            case "start":
                return self._event(TraceKind.PROCESS_START, pairs)
            case "module":
                return self._event(TraceKind.MODULE_STATE, {**pairs, "new": words[1]})
            case TraceKind.SEND | TraceKind.RECEIVE as kind:
                return self._event(kind, {**pairs, "message": words[1]})
            case state if state.isupper():
                return self._event(TraceKind.ELECTION_STATE, {**pairs, "state": state})
            case kind:
                return self._event(kind, pairs)

    def _event(self, kind: str, pairs: Mapping[str, str]) -> TraceEvent:
        fields = {NAMES.get(name, name): _value(text) for name, text in pairs.items()}
        return TraceEvent(0, self.ns, kind, {**DEFAULTS, **fields})

    def _fault(self, kind: str, pairs: Mapping[str, str]) -> FaultRecord:
        members = tuple(map(int, pairs["members"].split(",")))
        heal_ns = self.ns + int(float(pairs.get("for", "0.1")) * S)
        seen = Proof(True, "seen")
        return FaultRecord(kind, "", self.ns, self.ns, heal_ns, heal_ns, seen, seen, members)


def _value(text: str) -> Json:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text
