"""What is written down of a fault: when it was put in and taken away, and what was seen of both.

Values only; this module knows no file and no cluster.
"""

import json
from dataclasses import asdict, dataclass, replace


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether something was seen to take effect, and what was seen that shows it, or what was seen instead."""

    holds: bool
    evidence: str

    def __str__(self) -> str:
        return self.evidence if self.holds else f"not proved: {self.evidence}"


def shown(injected: Proof | None, healed: Proof | None) -> str:
    """The proofs of a fault, for a reader."""
    return f"{injected or 'no proof'}" + ("" if healed is None else f"; healed: {healed}")


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault: what was done to whom, when it was put in and taken away, and the proof of each.

    Times are nanoseconds of the runtime's monotonic clock, virtual ones of the simulated; the heal times are None for a
    fault that was never healed. It begins when the injector acts; what has to be looked at before that comes between
    `asked_ns` and then. A proof is None when no probe looked. `members` are those that it was about, by their ids;
    `component` is the one that it hit of each, None for whole members. `statement` says it in the language of
    scenarios, with the members that it hit; the operations are those that were acknowledged when it was asked for and
    when it was healed. `links` are those that it was put on: `from->to`, and the channel unless all are. A fault that
    no scenario made has none of these. One that `is_drawn` may pass unnoticed, as the pause of a process that has
    nothing to do: without any proof it is neither proved nor doubted.
    """

    what: str
    where: str
    inject_begin_ns: int
    inject_end_ns: int
    heal_begin_ns: int | None = None
    heal_end_ns: int | None = None
    inject_proof: Proof | None = None
    heal_proof: Proof | None = None
    members: tuple[int, ...] = ()
    component: str | None = None
    name: str = ""
    statement: str = ""
    inject_operations: int | None = None
    heal_operations: int | None = None
    asked_ns: int | None = None
    is_drawn: bool = False
    links: tuple[str, ...] = ()

    @property
    def was_unseen(self) -> bool:
        """Whether it was begun out of a drawn schedule, and nothing showed whether it took effect."""
        return self.is_drawn and self.inject_proof is None

    @property
    def is_proved(self) -> bool:
        """Whether its effect was seen, and its end, too, when it was healed."""
        wanted = (self.inject_proof,) if self.heal_end_ns is None else (self.inject_proof, self.heal_proof)
        return all(proof is not None and proof.holds for proof in wanted)

    @property
    def evidence(self) -> str:
        """Both proofs, for a reader."""
        return shown(self.inject_proof, self.heal_proof)

    def unhealed(self) -> "FaultRecord":
        """What was written down of it when it was put in."""
        return replace(self, heal_begin_ns=None, heal_end_ns=None, heal_proof=None, heal_operations=None)

    def to_json(self) -> str:
        """One line of the file of faults."""
        return json.dumps(asdict(self), separators=(",", ":"))
