"""One edit of a run folder as a value."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from upheaval.checkers.promises import Promise
from upheaval.tamper.run_copy import RunCopy

Change = Callable[[RunCopy], None]
"""Changes a run, or raises `Lacking` if it cannot. The first line of its docstring says what it forges."""


@dataclass(frozen=True)
class Edit:
    """A change, and the promises of which at least one must notice it."""

    change: Change
    promises: tuple[Promise, ...]

    @property
    def name(self) -> str:
        """The name for `--only`."""
        return self.change.__name__.replace("_", "-")

    @property
    def forges(self) -> str:
        """What the edit forges, for people: a sentence without its full stop."""
        return (inspect.getdoc(self.change) or "").partition("\n")[0].removesuffix(".")


def edit(change: Change, *promises: Promise) -> Edit:
    """A row of a table of edits."""
    return Edit(change, promises)
