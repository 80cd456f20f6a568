"""The record of a fault: when it was injected and healed, and the proof of each.

Values only; this module knows no file and no cluster.
"""

import json
from dataclasses import asdict, dataclass, replace

from upheaval_chaos.errors import UnknownOutcome


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether something took effect, and the observation that shows it or contradicts it."""

    holds: bool
    evidence: str

    def __str__(self) -> str:
        return self.evidence if self.holds else f"not proved: {self.evidence}"

    def require(self, what: str) -> None:
        """Raise `UnknownOutcome` if it does not hold; `what` says of what it is the proof."""
        if not self.holds:
            raise UnknownOutcome(f"{what}, {self}")


def shown(injected: Proof | None, healed: Proof | None) -> str:
    """The proofs of a fault, for a reader: of its effect, and of the end of it."""
    if injected is None:
        effect = "no proof of its effect"
    else:
        effect = injected.evidence if injected.holds else f"effect {injected}"
    if healed is None:
        return effect
    return f"{effect}; {'healed: ' if healed.holds else 'healing '}{healed}"


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault: its kind and target, when it was injected and healed, and the proof of each.

    Times are nanoseconds of the runtime's monotonic clock, which is virtual in the simulated runtime. The heal times
    are None for a fault that was never healed. A fault begins when the injector acts; observations needed before it
    fall between `asked_ns` and that time. A proof is None when no probe looked.

    `members` are the ids of its targets; `component` is the component that it hit of each, None for whole members.
    `statement` is the fault in the language of scenarios, with the members that it hit. The operation counts are the
    acknowledged ones when it was requested and when it was healed. `links` are the affected links as `from->to`, with
    the channel unless all are affected. A fault outside a scenario has none of these.

    A fault that `is_drawn` may pass unnoticed, as the pause of an idle process: without any proof it is neither proved
    nor doubted.
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
        """Whether it comes from a drawn schedule, and nothing showed whether it took effect."""
        return self.is_drawn and self.inject_proof is None

    @property
    def is_proved(self) -> bool:
        """Whether its effect was observed, and its healing if it was healed."""
        wanted = (self.inject_proof,) if self.heal_end_ns is None else (self.inject_proof, self.heal_proof)
        return all(proof is not None and proof.holds for proof in wanted)

    @property
    def evidence(self) -> str:
        """Both proofs, for a reader."""
        return shown(self.inject_proof, self.heal_proof)

    def unhealed(self) -> "FaultRecord":
        """The record as it was before the fault was healed."""
        return replace(self, heal_begin_ns=None, heal_end_ns=None, heal_proof=None, heal_operations=None)

    def to_json(self) -> str:
        """One line of the faults' file."""
        return json.dumps(asdict(self), separators=(",", ":"))
