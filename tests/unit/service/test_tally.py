"""The tally counts what the log tells it, offers its count, and goes on from a snapshot."""

import pytest

from unit.service.test_ledger import Log
from unit.service.test_service_state import MAX_LENGTH
from upheaval_node.errors import DecodeError
from upheaval_node.service.services.state import Record
from upheaval_node.service.services.tally import MESSAGES_AN_OFFER, Tally
from upheaval_node.service.snapshots import StateReader, StateWriter


class Client:
    """Of whom a tally asks nothing but that there is one; an answer would be an attribute that it does not have."""

    id = 1


def told(tally: Tally, messages: int, *, client: Client | None) -> None:
    for number in range(messages):
        tally.on_session_message(client, 0, memoryview(b"%d" % number), 64)  # type: ignore[arg-type]


def started(log: Log, messages: list[bytes] | None = None) -> Tally:
    tally = Tally()
    tally.on_start(log, None if messages is None else StateReader(messages))
    return tally


def test_it_offers_its_count_every_so_often_and_answers_nobody() -> None:
    log = Log()
    tally = started(log)
    told(tally, 3 * MESSAGES_AN_OFFER - 1, client=Client())
    assert len(log.offered) == 2
    told(tally, 1, client=Client())
    assert len(set(log.offered)) == 3


def test_messages_of_services_are_in_the_checksum_and_make_no_more_of_them() -> None:
    log = Log()
    tally = started(log)
    told(tally, MESSAGES_AN_OFFER, client=None)
    assert (tally.messages, log.offered) == (0, [])
    assert tally.checksum


def test_it_goes_on_from_a_snapshot_as_one_that_was_never_ended() -> None:
    log, later = Log(), Log()
    tally = started(log)
    told(tally, MESSAGES_AN_OFFER - 1, client=Client())
    writer = StateWriter(MAX_LENGTH)
    tally.on_take_snapshot(writer)
    restarted = started(later, writer.messages)
    for each in (tally, restarted):
        told(each, 1, client=Client())
    assert log.offered == later.offered
    assert len(log.offered) == 1


@pytest.mark.parametrize("record", [Record(1, "", bytes(12)), Record(7, "", bytes(11))])
def test_a_record_of_another_service_is_refused(record: Record) -> None:
    with pytest.raises(DecodeError):
        started(Log()).load(record)
