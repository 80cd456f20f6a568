"""The numbered ends of a member process. The harness reads them: a number never changes its meaning."""

from enum import IntEnum


class ExitStatus(IntEnum):
    """What the exit status of a process of the node means."""

    OK = 0
    """Ended on request (SIGTERM, SIGINT, or the cluster's own shutdown)."""
    INTERNAL_ERROR = 1
    """An assertion or an unforeseen error: a bug of the node. The traceback is on stderr."""
    USAGE = 2
    """The configuration makes no sense."""
    ADDRESS_UNAVAILABLE = 3
    """An address could not be bound or resolved at the start."""
    STORAGE_FAILED = 4
    """The disk refused a read, a write or a sync: nothing that this member would say could be trusted."""
    ALREADY_RUNNING = 5
    """Another live process holds the mark file."""
    COMPONENT_LOST = 6
    """Another process of this member died, or never appeared."""
    TERMINATED = 7
    """A component decided that it must end: it lost its archive, the log ended wrongly, or the like."""
    STOP_TIMED_OUT = 8
    """An orderly end took too long and was cut short."""
    PEER_FAULT = 9
    """Files or messages of another party are broken in a way that leaves nothing to continue with."""
