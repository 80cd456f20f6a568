"""The control toggle of a member and its effects, for runtimes that have its counters and files themselves."""

from upheaval_node.cluster.admin_commands import ControlStatus, give_command, read_control

__all__ = ["ControlStatus", "give_command", "read_control"]
