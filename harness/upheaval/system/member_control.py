"""The control toggle of a member and what comes of it, for runtimes that hold its counters and files themselves."""

from upheaval_node.cluster.admin_commands import ControlStatus, give_command, read_control

__all__ = ["ControlStatus", "give_command", "read_control"]
