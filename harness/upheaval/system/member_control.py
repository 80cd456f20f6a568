"""The control toggle of a member and what comes of it, for runtimes that hold its counters and files themselves."""

from upheaval_node.cluster.orders import ControlStatus, give_order, read_control

__all__ = ["ControlStatus", "give_order", "read_control"]
