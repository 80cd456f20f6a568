"""The errors of the harness, which faults and runtimes share (`upheaval_chaos.errors`)."""

from upheaval_chaos.errors import EnvironmentFault, HarnessError, UnknownOutcome, UsageError

__all__ = ["EnvironmentFault", "HarnessError", "UnknownOutcome", "UsageError"]

# People see and catch them by the name of the package that they import.
for _error in (EnvironmentFault, HarnessError, UnknownOutcome, UsageError):
    _error.__module__ = __name__
