"""The errors of the harness, shared by all its parts: one root, and one branch for each exit status of a command.

Every message is one line that says what is wrong and how to fix it.
"""

from typing import ClassVar

from upheaval_chaos.exit_status import CommandStatus


class HarnessError(Exception):
    """The root of every error that the harness raises on purpose. `exit_status` is the exit status of a command with
    it.
    """

    exit_status: ClassVar[CommandStatus] = CommandStatus.REFUSED


class UsageError(HarnessError):
    """The caller's request makes no sense: an unknown member, a bad option, a malformed file."""


class Conflict(UsageError):
    """Another fault that is active is in the way. Who leads may decide that, so a run ends as unknown by it."""


class EnvironmentFault(HarnessError):
    """The machine does not allow it: no permission, a port in use, a process that does not start."""


class UnknownOutcome(HarnessError):
    """An action was requested. Whether it happened is unknown, or it did not happen in time."""

    exit_status: ClassVar[CommandStatus] = CommandStatus.UNKNOWN
