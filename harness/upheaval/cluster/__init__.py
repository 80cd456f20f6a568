"""An operator's orders to a cluster and to the nodes beside its members, and how it is seen that they took effect."""

from upheaval.cluster.companion_control import ACTION_TIMEOUT_S, Keeper
from upheaval.cluster.control import (
    ABORT,
    ENDINGS,
    ORDERS,
    REPLICATE_STANDBY_SNAPSHOT,
    SHUTDOWN,
    SNAPSHOT,
    STANDBY_SNAPSHOT,
    START,
    Operable,
    perform,
)

__all__ = [
    "ABORT",
    "ACTION_TIMEOUT_S",
    "ENDINGS",
    "ORDERS",
    "REPLICATE_STANDBY_SNAPSHOT",
    "SHUTDOWN",
    "SNAPSHOT",
    "STANDBY_SNAPSHOT",
    "START",
    "Keeper",
    "Operable",
    "perform",
]
