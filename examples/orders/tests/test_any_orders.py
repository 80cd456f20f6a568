"""Any orders of two traders, whatever becomes of the members: hypothesis draws steps, and shrinks those that fail."""

from hypothesis import settings, strategies as st
from hypothesis.stateful import rule

from upheaval import ClusterMachine, NotSent, OutcomeUnknown


class OrderBookMachine(ClusterMachine):
    """The book never fills more than was asked for; that each answer is right is judged at the end."""

    service, schema = "orderbook.service:OrderBook", "protocol.xml"

    def __init__(self):
        super().__init__()
        self.order_id = 0

    @rule(trader=st.integers(0, 1), side=st.sampled_from(["BUY", "SELL"]), quantity=st.integers(1, 9))
    def order(self, trader, side, quantity):
        self.order_id += 1
        order = self.cluster.schema.NewOrder(
            orderId=self.order_id, side=side, quantity=quantity, price={"mantissa": 1250}, note="drawn"
        )
        try:
            answer = self.clients[trader].request(order)
        except (NotSent, OutcomeUnknown):
            return  # to this book the same order again would be another one
        assert answer.open + sum(fill.quantity for fill in answer.fills) == quantity


TestOrderBook = OrderBookMachine.TestCase
TestOrderBook.settings = settings(TestOrderBook.settings, max_examples=3, stateful_step_count=10)
