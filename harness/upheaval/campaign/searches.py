"""How a campaign draws its seeds."""

from typing import Final

UNIFORM: Final = "uniform"
"""Each cluster with its load and its faults."""
DELIVERY: Final = "delivery"
"""The same, and an order of deliveries between members."""
SEARCHES: Final = (UNIFORM, DELIVERY)
