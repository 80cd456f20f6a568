"""A client of the stock: what it sends and hears is that of `StockService.java`."""

import struct
from itertools import count

from upheaval import NotSent, OutcomeUnknown

REQUEST = struct.Struct("<qiq")
ANSWER = struct.Struct("<qq")
ITEMS = 5


class Clerk:
    """Adds to items. What was sent to a leader that died has no answer: the judge looks it up in the log."""

    def __init__(self, client, number):
        self.client = client
        self.ids = count(number << 32)

    def add(self, item, how_many):
        """How many are left; None without an answer."""
        number = next(self.ids)
        try:
            answered, left = ANSWER.unpack(self.client.request(REQUEST.pack(number, item, how_many)))
        except (NotSent, OutcomeUnknown):
            return None
        assert answered == number
        return left

    def work(self, requests):
        """The load of the tests: how many requests were answered."""
        return sum(self.add(number % ITEMS, 1) is not None for number in range(requests))
