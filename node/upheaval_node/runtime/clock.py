"""The machine's clock."""

import time

from upheaval_node.types import MS, Now, Ns


class SystemClock:
    """The machine's clock, for a duty cycle."""

    def now(self) -> Now:
        """The machine's monotonic and wall-clock time."""
        ns, wall_ns = time.monotonic_ns(), time.time_ns()
        return Now(Ns(ns), wall_ns // MS, wall_ns % MS)
