"""The order book on a cluster: requests and answers are messages of `protocol.xml`."""

import itertools

import pytest


class Trader:
    """Who asks the book, with order ids of its own."""

    def __init__(self, cluster, first_id=1):
        self.client, self.schema = cluster.client(timeout_s=3), cluster.schema
        self.ids = itertools.count(first_id)

    def order(self, side, quantity, price):
        request = self.schema.NewOrder(
            orderId=next(self.ids), side=side, quantity=quantity, price={"mantissa": price}, note="by hand"
        )
        return self.client.request(request)

    def cancel(self, order_id):
        return self.client.request(self.schema.CancelOrder(orderId=order_id))

    def trade(self, rounds):
        for _ in range(rounds):
            resting = self.order("SELL", 10, 1250)
            taken = self.order("BUY", 4, 1300)
            assert [(fill.quantity, fill.price.mantissa) for fill in taken.fills] == [(4, 1250)]
            assert self.cancel(resting.orderId).quantity == 6


@pytest.fixture
def trader(cluster):
    return Trader(cluster)


def test_orders_meet_whoever_leads(cluster, chaos, trader):
    trader.trade(20)
    killed = chaos.kill_leader()
    assert cluster.wait_until_leader() != killed
    other = Trader(cluster, first_id=1000)
    other.trade(20)
    assert other.cancel(999).reason == "UNKNOWN_ORDER"
    cluster.assert_valid()


def test_the_book_outlives_a_restart_from_a_snapshot(cluster, trader):
    resting = trader.order("SELL", 10, 1400)
    trader.trade(35)
    cluster.snapshot()
    cluster.shutdown()
    cluster.start_all()
    other = Trader(cluster, first_id=1000)
    assert other.cancel(resting.orderId).quantity == 10
    cluster.assert_valid()
