"""An operator's commands to a cluster and to the nodes beside its members, each with the proof of its effect."""

from upheaval.cluster.asked import AskedCommands as AskedCommands
from upheaval.cluster.companion_control import ACTION_TIMEOUT_S as ACTION_TIMEOUT_S, Keeper as Keeper
from upheaval.cluster.control import Operable as Operable, perform as perform
from upheaval.cluster.ending import (
    Ending as Ending,
    end_run as end_run,
    needs_closing_snapshot as needs_closing_snapshot,
)
from upheaval.cluster.witnesses import Witnesses as Witnesses
