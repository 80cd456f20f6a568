"""One edit of a run folder as a value."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from upheaval.checkers.promises import Promise
from upheaval.tamper.run_copy import RunCopy

Change = Callable[[RunCopy], None]
"""Raises `Lacking` for a run without what the edit changes. The first line of its docstring says what it forges."""


@dataclass(frozen=True)
class Edit:
    """What is changed, and the promises of which at least one must notice it."""

    change: Change
    promises: tuple[Promise, ...]

    @property
    def name(self) -> str:
        """As `--only` takes it."""
        return self.change.__name__.replace("_", "-")

    @property
    def forges(self) -> str:
        """For a reader, a sentence without its full stop."""
        return (inspect.getdoc(self.change) or "").partition("\n")[0].removesuffix(".")


def edit(change: Change, *promises: Promise) -> Edit:
    """A row of a table of edits."""
    return Edit(change, promises)
