"""Errors of the simulated runtime itself; what the simulated node raises keeps its own classes."""

from typing import ClassVar

from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Signature
from upheaval.errors import HarnessError
from upheaval.records import Failure, RuleBroken
from upheaval_chaos.exit_status import CommandStatus


class SimulationError(HarnessError):
    """The simulation cannot go on: an event storm at one instant, or a handle used against its state."""


class ProcessDied(BaseException):
    """Unwinds a process that was killed in the middle of a call; nothing of the node may catch it."""


class PromiseBroken(SimulationError):
    """What must hold after every step does not, at a moment of the world; the signature says which rule."""

    def __init__(self, text: str, signature: Signature, member_id: int | None, ns: int) -> None:
        super().__init__(text)
        self.signature = signature
        self.member_id = member_id
        self.ns = ns

    @property
    def failure(self) -> Failure:
        """As the manifest of the run says it."""
        signature = self.signature
        broken = RuleBroken(signature.rule, signature.role, signature.state, self.member_id, self.ns)
        return Failure(Promise.INVARIANTS, " ".join(str(self).split()), broken)

    exit_status: ClassVar[CommandStatus] = CommandStatus.BROKEN


class ProcessFailed(SimulationError):
    """A process ended by itself where it should have gone on: a defect, or a member that saw what must not be."""

    exit_status: ClassVar[CommandStatus] = CommandStatus.UNKNOWN
