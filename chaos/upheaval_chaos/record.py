"""What is written down of a fault: when it was put in and taken away, and what was seen of both.

Values only; this module knows no file and no cluster.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

NOT_PROVED: Final = "not proved: "
"""How the proof of a fault begins that was not seen to take effect, or not seen to be healed."""


def is_proof(text: str) -> bool:
    """Whether it says what was seen, and not what was missed."""
    return bool(text) and not text.startswith(NOT_PROVED)


@dataclass(frozen=True, slots=True)
class FaultRecord:
    """One fault: what was done to whom, when it was put in and taken away, and the proof that both took effect.

    Times are nanoseconds of the host's monotonic clock; the heal times are None for a fault that was never healed.
    It begins when the hands act; what has to be looked at before that lies between `asked_ns` and then.
    `statement` says it in the language of scenarios, with the members that it hit; the operations are those that were
    acknowledged when it was asked for and when it was healed. A fault that no scenario made has none of these.
    """

    what: str
    where: str
    inject_begin_ns: int
    inject_end_ns: int
    heal_begin_ns: int | None = None
    heal_end_ns: int | None = None
    proof: str = ""
    name: str = ""
    statement: str = ""
    inject_operations: int | None = None
    heal_operations: int | None = None
    asked_ns: int | None = None

    @property
    def is_proved(self) -> bool:
        """Whether both its effect and its end were seen."""
        return is_proof(self.proof)

    def to_json(self) -> str:
        """One line of the file of faults."""
        return json.dumps(asdict(self), separators=(",", ":"))
