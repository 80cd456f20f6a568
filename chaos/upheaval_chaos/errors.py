"""The errors of the harness, from its lowest floor up: one root, one branch for each exit status of a command.

Every message is one line that says what is wrong and what to do about it.
"""

from typing import ClassVar

from upheaval_chaos.exit_status import CommandStatus


class HarnessError(Exception):
    """Root of every error that the harness raises on purpose. `exit_status` is what a command ends with."""

    exit_status: ClassVar[CommandStatus] = CommandStatus.REFUSED


class UsageError(HarnessError):
    """The caller asked for something that makes no sense: an unknown member, a bad option, a malformed file."""


class EnvironmentFault(HarnessError):
    """The machine does not allow it: no permission, a port in use, a process that does not start."""


class UnknownOutcome(HarnessError):
    """Something was asked for. Whether it happened is unknown, or it did not happen in time."""

    exit_status: ClassVar[CommandStatus] = CommandStatus.UNKNOWN
