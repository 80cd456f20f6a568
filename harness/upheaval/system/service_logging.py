"""What keeps in a trace what services write with Python's `logging`: the node's own, for members without a process."""

from upheaval_node.runtime.trace_logging import TraceHandler as TraceHandler
