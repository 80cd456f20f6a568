"""Where snapshots are taken in a replay, and what of two copies is compared, on entries and effects made by hand."""

import pytest

from upheaval.checkers.own.cuts import CUTS, Aspect, Difference, choose_cuts, first_difference, rank_cuts
from upheaval.checkers.own.effects import Effects, Entry, EntryKind

QUIET = Effects()


def request(index: int, payload: bytes = b'{"do": "add"}') -> Entry:
    return Entry(32 * (index + 1), EntryKind.REQUEST, index, 1, payload)


def requests(count: int) -> list[Entry]:
    return [request(index) for index in range(count)]


def test_nine_places_begin_before_the_first_entry_and_rise() -> None:
    cuts = choose_cuts(requests(100), [QUIET] * 100)
    assert len(cuts) == CUTS
    assert cuts[0] == 0
    assert list(cuts) == sorted(set(cuts))


def test_the_last_snapshot_is_the_first_place_to_show_much() -> None:
    entries = requests(100)
    entries[60] = Entry(1952, EntryKind.SNAPSHOT, 60)
    ranked = rank_cuts(entries, [QUIET] * 100)
    assert ranked[:2] == (0, 61)
    assert sorted(ranked) == list(choose_cuts(entries, [QUIET] * 100))


def test_a_short_log_has_fewer_places() -> None:
    assert choose_cuts([], []) == (0,)
    assert choose_cuts(requests(2), [QUIET] * 2) == (0, 1)


@pytest.mark.parametrize(
    ("effects", "kind"),
    [
        (Effects(timers=((7, 900),)), EntryKind.TIMER),
        (Effects(offers=(b"news",)), EntryKind.OWN_MESSAGE),
    ],
)
def test_a_place_is_where_timers_are_set_or_messages_are_on_their_way(effects: Effects, kind: EntryKind) -> None:
    """The entry after it ends what was pending, so no evenly chosen place sees it."""
    entries, done = requests(101), [QUIET] * 101
    done[42], entries[43] = effects, Entry(32 * 44, kind, 43, 7)
    assert 43 in choose_cuts(entries, done)
    assert 43 not in choose_cuts(requests(101), [QUIET] * 101)


@pytest.mark.parametrize("payload", [b'{"set": "limit"}', bytes([8, 0, 4, 0, 1, 0, 1, 0]) + b"limit"])
def test_a_place_follows_a_request_of_a_rare_shape(payload: bytes) -> None:
    entries = requests(100)
    entries[17] = request(17, payload)
    assert 18 in choose_cuts(entries, [QUIET] * 100)


def test_a_place_follows_the_last_request_while_most_sessions_were_open() -> None:
    entries = requests(100)
    entries[3] = Entry(128, EntryKind.SESSION_OPEN, 3, 1)
    entries[33] = Entry(1088, EntryKind.SESSION_CLOSE, 33, 1)
    assert 33 in choose_cuts(entries, [QUIET] * 100)


def test_a_place_is_a_members_own_snapshot() -> None:
    entries = requests(100)
    entries[60] = Entry(1952, EntryKind.SNAPSHOT, 60)
    assert 61 in choose_cuts(entries, [QUIET] * 100)


@pytest.mark.parametrize(
    ("whole", "other", "aspect", "says"),
    [
        (Effects(((1, b"yes"),)), Effects(((1, b"no"),)), Aspect.EGRESS, ("sends 'yes' to", "sends 'no' to session 1")),
        (Effects(((1, b"a"), (2, b"a"))), Effects(((1, b"a"),)), Aspect.EGRESS, ("to session 2", "sends nothing")),
        (Effects(offers=(b"x",)), QUIET, Aspect.OFFERS, ("offers 'x' to the log", "offers nothing to the log")),
        (Effects(timers=((7, 90),)), QUIET, Aspect.TIMERS, ("sets timer 7 for 90", "sets no timer")),
        (Effects(timers=((7, None),)), QUIET, Aspect.TIMERS, ("cancels timer 7", "sets no timer")),
        (Effects(closed=(3,)), QUIET, Aspect.CLOSED, ("closes session 3", "closes no session")),
        (QUIET, Effects(raised="KeyError"), Aspect.RAISED, ("raises nothing", "raises KeyError")),
    ],
)
def test_the_first_thing_that_two_copies_do_otherwise_is_found(
    whole: Effects, other: Effects, aspect: Aspect, says: tuple[str, str]
) -> None:
    found = first_difference([QUIET, QUIET, whole, QUIET], [QUIET, other, QUIET], 1)
    assert isinstance(found, Difference)
    assert (found.index, found.aspect) == (2, aspect)
    assert says[0] in found.whole
    assert says[1] in found.other


def test_the_order_of_sessions_and_timers_at_one_entry_decides_nothing() -> None:
    one = Effects(((1, b"a"), (2, b"b")), timers=((1, 5), (2, 6)), closed=(1, 2))
    two = Effects(((2, b"b"), (1, b"a")), timers=((2, 6), (1, 5)), closed=(2, 1))
    assert first_difference([one], [two], 0) is None


def test_egress_can_be_left_out() -> None:
    one, two = Effects(((1, b"a"),)), Effects(((1, b"b"),))
    assert first_difference([one], [two], 0, with_egress=False) is None
    assert first_difference([one], [two], 0) is not None
