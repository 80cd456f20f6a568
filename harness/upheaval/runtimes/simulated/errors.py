"""Errors of the simulated runtime itself. Errors of the simulated node keep their own classes."""

from typing import ClassVar

from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import Signature
from upheaval.errors import HarnessError
from upheaval.records import Failure, RuleBroken
from upheaval_chaos.exit_status import CommandStatus


class SimulationError(HarnessError):
    """The simulation cannot continue: an event storm at one instant, or wrong use of a handle."""


class ProcessDied(BaseException):
    """Unwinds a process that was killed in the middle of a call. The node must not catch it."""


class PromiseBroken(SimulationError):
    """An invariant that must hold after every step is violated. The signature names the rule."""

    def __init__(self, text: str, signature: Signature, member_id: int | None, ns: int) -> None:
        super().__init__(text)
        self.signature = signature
        self.member_id = member_id
        self.ns = ns

    @property
    def failure(self) -> Failure:
        """The failure in the form of the run's manifest."""
        signature = self.signature
        broken = RuleBroken(signature.rule, signature.role, signature.state, self.member_id, self.ns)
        return Failure(Promise.INVARIANTS, " ".join(str(self).split()), broken)

    exit_status: ClassVar[CommandStatus] = CommandStatus.BROKEN


class ProcessFailed(SimulationError):
    """A process ended on its own although it should have continued: a defect, or a member that saw a forbidden
    state.
    """

    exit_status: ClassVar[CommandStatus] = CommandStatus.UNKNOWN
