"""An operator's orders to a cluster and to the nodes beside its members, and how it is seen that they took effect."""

from upheaval.cluster.companion_control import ACTION_TIMEOUT_S, Keeper
from upheaval.cluster.control import Operable, perform

__all__ = [
    "ACTION_TIMEOUT_S",
    "Keeper",
    "Operable",
    "perform",
]
