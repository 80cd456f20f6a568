"""A node of a live cluster, a member or a companion: its injector and its observer.

A runtime implements both; this module knows neither processes nor container engines.
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
# When a component of a member has died, the rest of the member ends within this time: Aeron's notice the death after 10
# s.
COMPONENT_END_TIMEOUT_S: Final = 20.0


class Node(target.Node, Protocol):
    """A node as faults know it, and what this machine can tell it in addition."""

    def reload(self) -> None:
        """Make the node read its current certificates and credentials file again."""


Node_co = TypeVar("Node_co", bound=Node, covariant=True)


class LiveNode(ABC, Generic[Node_co]):
    """A handle of one node: its folder, and its injector and observer in the runtime."""

    def __init__(self, name: str, folder: Path, node: Node_co) -> None:
        self.name = name
        self.folder = folder
        """Its folder in the run folder."""
        self.node = node

    def incarnation(self, component: str | None = None) -> frozenset[str]:
        """The names of the current incarnations, never used again; empty when nothing runs."""
        return self.node.incarnation(component)

    def is_running(self) -> bool:
        """Whether any part of the node runs, paused or not."""
        return bool(self.node.incarnation())

    def collect(self) -> None:
        """Copy the node's files into the run folder, in runtimes where it does not write there itself."""


def wait_until_whole_or_gone(name: str, wanted: int, running: Callable[[], int], interval_s: float) -> None:
    """Wait for a node that lost a component to end, as it does on its own. `running` counts its running components."""
    if wanted == 1:
        return
    with contextlib.suppress(UnknownOutcome):
        wait_until(
            lambda: running() in (0, wanted),
            timeout_s=COMPONENT_END_TIMEOUT_S,
            describe=lambda: f"{name} neither runs nor ends: {running()} of it run",
            interval_s=interval_s,
        )
