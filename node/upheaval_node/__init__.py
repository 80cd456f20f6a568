"""The node: consensus module, archive, clustered service container and client of a replicated state machine.

This package needs nothing but the standard library at run time.
"""

from upheaval_node import compiled

__version__ = "0.1.0"

compiled.install()
