"""Traces what services write with Python's `logging`. This is the node's own handler, for members without a process."""

from upheaval_node.runtime.trace_logging import TraceHandler as TraceHandler
