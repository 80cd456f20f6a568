"""The ways in which a campaign draws its seeds: what each of them makes of a drawn cluster."""

from collections.abc import Callable, Mapping
from typing import Final

from upheaval.campaign.chains import draw_chains
from upheaval.campaign.moments import draw_moments
from upheaval.campaign.swarm import Swarm, draw_delivery

UNIFORM: Final = "uniform"
"""The cluster with its load and its faults, as it is drawn."""
DELIVERY: Final = "delivery"
"""The same, and an order of deliveries between members."""
CHAINS: Final = "chains"
"""The same with other faults, in chains."""
MOMENTS: Final = "moments"
"""The same with other faults, which begin when members enter drawn states."""
SEARCHES: Final[Mapping[str, Callable[[Swarm], Swarm]]] = {
    UNIFORM: lambda swarm: swarm,
    DELIVERY: draw_delivery,
    CHAINS: draw_chains,
    MOMENTS: draw_moments,
}
