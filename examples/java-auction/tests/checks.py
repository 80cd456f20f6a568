"""What the auction should answer, and what must hold whatever happens."""

from tests.bidder import ANSWER, BID, Answer
from upheaval import Model, promise


class Lot(Model):
    """One lot: bids for different ones have nothing to do with each other."""

    @staticmethod
    def partition(request):
        return str(BID.unpack(request.payload)[1])

    def __init__(self):
        self.leader = self.price = self.bids = 0

    def apply(self, request):
        number, _, bidder, price = BID.unpack(request.payload)
        self.bids += 1
        if price > self.price:
            self.leader, self.price = bidder, price
        leads = (bidder, price) == (self.leader, self.price)
        return ANSWER.pack(number, leads, self.leader, self.price, self.bids)


@promise("the price of a lot never falls")
def prices_only_rise(run):
    prices = {}
    for request in run.requests():
        if request.answer is not None:
            lot, price = BID.unpack(request.payload)[1], Answer(*ANSWER.unpack(request.answer)).price
            assert price >= prices.get(lot, 0), f"lot {lot} went from {prices[lot]} to {price}"
            prices[lot] = price
