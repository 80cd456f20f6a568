"""A client of the auction: what it sends and hears is that of `AuctionService.java`."""

import struct
from itertools import count
from typing import NamedTuple

from upheaval import NotSent, OutcomeUnknown

BID = struct.Struct("<qiiq")
ANSWER = struct.Struct("<qiiqi")
ATTEMPTS = 10


class Answer(NamedTuple):
    id: int
    leads: int
    leader: int
    price: int
    bids: int


class Bidder:
    """The same bid may be made again, so it asks until it knows. Ids make each request one of its own in the log."""

    def __init__(self, client, number):
        self.client = client
        self.number = number
        self.ids = count(number << 32)

    def bid(self, lot, price):
        for _ in range(ATTEMPTS):
            try:
                return Answer(*ANSWER.unpack(self.client.request(BID.pack(next(self.ids), lot, self.number, price))))
            except (NotSent, OutcomeUnknown):
                continue
        raise TimeoutError(f"no answer to a bid of {price} for lot {lot} in {ATTEMPTS} attempts")
