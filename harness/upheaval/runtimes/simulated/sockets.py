"""The owner of a simulated socket, and why its connection is over. This module knows no network."""

from enum import StrEnum
from typing import Protocol

from upheaval.runtimes.simulated.world import Action


class EndReason(StrEnum):
    """Why a connection is over, for its handler."""

    CLOSED = "closed by peer"
    REFUSED = "connection refused"
    RESET = "reset by peer"
    RESET_ON_THE_WAY = "reset by the network"
    TIMED_OUT = "connection timed out"
    BROKEN_OFF = "closed by the network"


class Owner(Protocol):
    """The process that owns a socket: input is delivered in its loop."""

    @property
    def host(self) -> str:
        """The host that the process runs on."""

    @property
    def alive(self) -> bool:
        """Whether the process lives."""

    def deliver(self, action: Action) -> None:
        """Run a delivery in the loop of the process."""
