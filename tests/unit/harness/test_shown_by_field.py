"""Findings of a replay show messages of a schema by name and field, and states by the first field that differs."""

from pathlib import Path

import pytest

from upheaval.checkers.own.asked_of_log import log_against_asked
from upheaval.checkers.own.cuts import first_difference
from upheaval.checkers.own.effects import Effects, Entry, EntryKind
from upheaval.checkers.own.played import entry_text
from upheaval.checkers.states.replay import LoggedMessage
from upheaval.checkers.states.state_diff import state_difference
from upheaval.records import Payloads, read_schema
from upheaval_node.protocol.session_header import pack_session_header

SCHEMA = read_schema(str(Path(__file__).parents[3] / "examples" / "orders" / "protocol.xml"))
ORDERS = Payloads(SCHEMA)
NAMES = ("the one", "the other")


def resting(order: int, quantity: int) -> bytes:
    values = {"orderId": order, "side": "BUY", "quantity": quantity, "price": {"mantissa": 1250}}
    return SCHEMA.RestingOrder(**values).encode()


def cancelled(order: int, quantity: int) -> bytes:
    return SCHEMA.OrderCancelled(orderId=order, quantity=quantity).encode()


def test_what_a_copy_sends_otherwise() -> None:
    whole, other = Effects(egress=((1, cancelled(7, 4)),)), Effects(egress=((1, cancelled(7, 6)),))
    difference = first_difference([whole], [other], 0, payloads=ORDERS)
    assert difference is not None
    assert difference.whole == "sends OrderCancelled(orderId=7, quantity=4) to session 1"
    assert difference.other == "sends OrderCancelled(orderId=7, quantity=6) to session 1"


def test_what_the_log_lacks() -> None:
    entries = [Entry(32, EntryKind.REQUEST, 0, 1), Entry(64, EntryKind.OWN_MESSAGE, 1, 0, cancelled(7, 6))]
    unasked = log_against_asked(entries, [Effects(offers=(cancelled(7, 4),)), Effects()], payloads=ORDERS)
    assert unasked is not None
    assert "has the service's message OrderCancelled(orderId=7, quantity=6) at position 64" in unasked.detail
    assert "what a replay offers is OrderCancelled(orderId=7, quantity=4)" in unasked.detail


def test_the_entry_at_which_it_was() -> None:
    message = LoggedMessage(96, pack_session_header(0, 3, 1_000) + cancelled(7, 4))
    assert entry_text(message, ORDERS) == "the message OrderCancelled(orderId=7, quantity=4) of session 3"


@pytest.mark.parametrize(
    ("one", "other", "says"),
    [
        (
            [resting(1, 5), resting(2, 4)],
            [resting(1, 5), resting(2, 6)],
            "of message 2 is the first that differs; RestingOrder.quantity is 4 in the one and 6 in the other",
        ),
        ([resting(1, 5)], [cancelled(1, 5)], " in the one and OrderCancelled(orderId=1, quantity=5) in the other"),
        ([resting(1, 5)], [resting(1, 5), cancelled(2, 4)], "; OrderCancelled(orderId=2, quantity=4) is the first of"),
        ([b"ann=5"], [b"ann=7"], "the one has 'ann=5', the other has 'ann=7'"),
    ],
)
def test_where_states_differ(one: list[bytes], other: list[bytes], says: str) -> None:
    assert says in state_difference(one, other, NAMES, ORDERS)
