"""A node of a live cluster, a member or one beside the members: what can be done to it, and seen of it from outside.

A runtime fills in the injector and the observer; this module knows neither processes nor engines.
"""

import contextlib
from abc import ABC
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from upheaval.errors import UnknownOutcome
from upheaval.waits import wait_until
from upheaval_chaos import target

STOP_TIMEOUT_S: Final = 15.0
# Within this time the rest of a member ends when a component of it has died, of which members of Aeron hear after 10 s.
COMPONENT_END_TIMEOUT_S: Final = 20.0


class Node(target.Node, Protocol):
    """As faults know it, and what this machine can tell it besides."""

    def reload(self) -> None:
        """Let it read its certificates and the credentials file again, as they are on this machine now."""


Node_co = TypeVar("Node_co", bound=Node, covariant=True)


class LiveNode(ABC, Generic[Node_co]):
    """A handle of one node: where its files are, and the injector and the observer that it has in its runtime."""

    def __init__(self, name: str, folder: Path, node: Node_co) -> None:
        self.name = name
        self.folder = folder
        """Its folder in the run folder."""
        self.node = node

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        """Names of what runs now, which never come back; empty when nothing runs."""
        return self.node.incarnation(component)

    def is_running(self) -> bool:
        """Whether anything of it runs, paused or not."""
        return bool(self.node.incarnation())

    def collect(self) -> None:
        """Bring what it has written so far into the run folder, where it is not there by itself."""


def wait_until_whole_or_gone(name: str, wanted: int, running: Callable[[], int], interval_s: float) -> None:
    """A node that has lost one of its components ends by itself: wait for that. `running` counts what runs of it."""
    if wanted == 1:
        return
    with contextlib.suppress(UnknownOutcome):
        wait_until(
            lambda: running() in (0, wanted),
            timeout_s=COMPONENT_END_TIMEOUT_S,
            describe=lambda: f"{name} neither runs nor ends: {running()} of it run",
            interval_s=interval_s,
        )
