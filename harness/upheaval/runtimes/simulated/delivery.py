"""The order of deliveries by priorities of channels, in the manner of PCT (probabilistic concurrency testing).

Each channel between two members has a priority. The lower it is, the later a message on it arrives. At `depth - 1`
drawn ordinals of all messages between members, the channel of that message falls below all others. So a run of depth 2
changes the order once, one of depth 3 twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from upheaval.runtimes.simulated.links import Link

DEPTHS: Final = (2, 3)
MESSAGES: Final = 4000
"""The number of messages within which the order changes: members send about as many in 30 seconds of a campaign."""


@dataclass(frozen=True, slots=True)
class DeliveryOrder:
    """How many changes of the order there are, and how much later the channel of the lowest priority delivers."""

    depth: int
    spread_ns: int


class DeliveryPriorities:
    """The priorities of some channels, from now on."""

    def __init__(self, channels: Sequence[Link], order: DeliveryOrder, random: Random) -> None:
        changes = sorted(random.sample(range(MESSAGES), order.depth - 1))
        self._lowest_ns = {
            ordinal: order.spread_ns + order.spread_ns * place // len(changes)
            for place, ordinal in enumerate(changes, start=1)
        }
        self._ordinal = 0
        self._delays_ns = [order.spread_ns * rank // max(len(channels) - 1, 1) for rank in range(len(channels))]
        random.shuffle(self._delays_ns)
        for number, channel in enumerate(channels):
            channel.delay(partial(self._delay_ns, number))

    def _delay_ns(self, number: int) -> int:
        """The delay of the next message on a channel."""
        self._delays_ns[number] = self._lowest_ns.get(self._ordinal, self._delays_ns[number])
        self._ordinal += 1
        return self._delays_ns[number]
