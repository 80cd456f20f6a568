"""Errors of the simulated runtime itself; what the simulated node raises keeps its own classes."""


class SimulationError(Exception):
    """The simulation cannot go on: an event storm at one instant, or a handle used against its state."""
