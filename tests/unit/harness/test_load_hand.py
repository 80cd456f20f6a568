"""What changes a load, when the process of its users is gone already."""

import os

from upheaval.load.users_process import LoadHand


def test_a_rate_that_no_process_reads_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    hand = LoadHand()
    with hand.holding(os.fdopen(writer, "w")):
        hand.set_rate(5.0)
        hand.end()
        hand.set_rate(6.0)
    assert hand.is_ended


def test_a_load_that_is_over_has_no_rate_any_more() -> None:
    reader, writer = os.pipe()
    hand = LoadHand()
    with os.fdopen(reader) as written:
        with hand.holding(os.fdopen(writer, "w")):
            hand.set_rate(5.0)
        hand.set_rate(6.0)
        assert written.read() == '{"rate": 5.0}\n'
