"""Errors of the simulated runtime itself; what the simulated node raises keeps its own classes."""

from upheaval.errors import HarnessError


class SimulationError(HarnessError):
    """The simulation cannot go on: an event storm at one instant, or a handle used against its state."""
