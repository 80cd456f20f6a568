"""One edit of a run folder as a value."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from upheaval.checkers.promises import Promise
from upheaval.tamper.run_copy import RunCopy

Change = Callable[[RunCopy], None]
"""Changes a run, or raises `Lacking` if it cannot. The first line of its docstring says what it forges."""
Part = TypeVar("Part")
Changed = TypeVar("Changed")


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


def applied_by(
    apply: Callable[[RunCopy, Callable[[Part], Changed]], None],
) -> Callable[[Callable[[Part], Changed]], Change]:
    """A decorator for a change of a part of a run, to which `apply` applies it."""

    def decorated(change: Callable[[Part], Changed]) -> Change:
        @wraps(change)
        def changed(run: RunCopy) -> None:
            apply(run, change)

        return changed

    return decorated


def edit(change: Change, *promises: Promise) -> Edit:
    """A row of a table of edits."""
    return Edit(change, promises)
