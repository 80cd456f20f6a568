"""An order book: orders to buy meet orders to sell at the price of the one that was there first."""

from dataclasses import dataclass

from orderbook.protocol import SCHEMA
from upheaval import ClusteredService, SbeError


@dataclass
class Order:
    """What is left of an order; `price` is in hundredths."""

    id: int
    side: str
    quantity: int
    price: int


class OrderBook(ClusteredService):
    """The book in the order in which orders came."""

    def __init__(self):
        self.orders = {}

    def on_start(self, cluster, snapshot_image):
        while snapshot_image is not None and (content := snapshot_image.read()) is not None:
            resting = SCHEMA.decode(content)
            order = Order(resting.orderId, str(resting.side), resting.quantity, resting.price.mantissa)
            self.orders[order.id] = order

    def on_session_message(self, session, timestamp, payload, position):
        answer = self.answer(payload)
        if session is not None:
            session.respond(answer.encode())

    def answer(self, payload):
        try:
            request = SCHEMA.decode(payload)
        except SbeError:
            return SCHEMA.Rejected(orderId=0, reason="NOT_AN_ORDER")
        if "side" in request:
            return self.accept(Order(request.orderId, str(request.side), request.quantity, request.price.mantissa))
        return self.cancel(request.orderId)

    def accept(self, order):
        fills = []
        for other in self.matches(order):
            quantity = min(order.quantity, other.quantity)
            if quantity == 0:
                break
            fills.append({"quantity": quantity, "price": {"mantissa": other.price}})
            order.quantity -= quantity
            other.quantity -= quantity
            if other.quantity == 0:
                del self.orders[other.id]
        if order.quantity > 0:
            self.orders[order.id] = order
        return SCHEMA.OrderAccepted(orderId=order.id, open=order.quantity, fills=fills)

    def matches(self, order):
        """The orders of the other side that it may meet, the best price first, then the oldest."""
        sign = 1 if order.side == "BUY" else -1
        others = [other for other in self.orders.values() if other.side != order.side]
        within = [other for other in others if sign * other.price <= sign * order.price]
        return sorted(within, key=lambda other: sign * other.price)

    def cancel(self, order_id):
        order = self.orders.pop(order_id, None)
        if order is None:
            return SCHEMA.Rejected(orderId=order_id, reason="UNKNOWN_ORDER")
        return SCHEMA.OrderCancelled(orderId=order_id, quantity=order.quantity)

    def on_take_snapshot(self, snapshot_publication):
        for order in self.orders.values():
            resting = SCHEMA.RestingOrder(
                orderId=order.id, side=order.side, quantity=order.quantity, price={"mantissa": order.price}
            )
            snapshot_publication.offer(resting.encode())
