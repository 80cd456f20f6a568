"""The ledger conserves money over both steps of its transfers, over snapshots, and whatever clients ask for."""

import struct
from random import Random

import pytest

from unit.service.test_service_state import MAX_LENGTH, Clock
from upheaval_node.errors import DecodeError
from upheaval_node.service.services.encoding import (
    Operation,
    Request,
    Response,
    Status,
    decode_response,
    encode_request,
)
from upheaval_node.service.services.ledger import FLIGHT_KIND, INITIAL_BALANCE, Ledger
from upheaval_node.service.services.state import Record
from upheaval_node.service.snapshots import StateReader, StateWriter


class Log(Clock):
    """Keeps what the service offers until it is delivered."""

    def __init__(self) -> None:
        super().__init__()
        self.offered: list[bytes] = []

    def offer(self, *parts: object) -> int:
        self.offered.append(b"".join(part for part in parts if isinstance(part, bytes)))
        return 1


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def ledger(log: Log) -> Ledger:
    service = Ledger()
    service.on_start(log, None)
    return service


def transfer(service: Ledger, number: int, source: str, target: str, amount: int) -> Response:
    request = Request(number, Operation.TRANSFER, source, struct.pack("<q", amount), target.encode())
    return decode_response(service.execute(encode_request(request), 96))


def deliver(service: Ledger, message: bytes) -> None:
    service.on_session_message(None, 0, memoryview(message), 128)


def total(service: Ledger) -> int:
    return sum(service.accounts.values()) + sum(service.in_flight.values())


def test_what_another_service_of_the_member_offers_is_left_alone(ledger: Ledger, log: Log) -> None:
    """Also bytes in which the code of a CREDIT is where a request has its own."""
    transfer(ledger, 1, "a", "b", 10)
    before = total(ledger)
    deliver(ledger, bytes([0] * 8 + [Operation.CREDIT] + [0] * 3))
    deliver(ledger, encode_request(Request(1, Operation.ECHO, "", b"1")))
    assert total(ledger) == before
    deliver(ledger, log.offered[0])
    assert ledger.accounts == {"a": INITIAL_BALANCE - 10, "b": INITIAL_BALANCE + 10}


@pytest.mark.parametrize("value", [b"", b"1", struct.pack("<q", 5)])
@pytest.mark.parametrize("account", ["", "c"])
def test_a_credit_that_it_cannot_have_offered_is_left_alone(ledger: Ledger, value: bytes, account: str) -> None:
    """Another service may use the same code: here for an account that no transfer has named, or another value."""
    transfer(ledger, 1, "a", "b", 10)
    before = total(ledger)
    deliver(ledger, encode_request(Request(1, Operation.CREDIT, account, value)))
    deliver(ledger, encode_request(Request(1, Operation.CREDIT, "b", b"1")))
    assert (total(ledger), ledger.in_flight) == (before, {1: 10})


@pytest.mark.parametrize("key", ["", "b", "1.5", " 1", "+1", "1_0", "9" * 5_000])
def test_a_snapshot_with_a_transfer_of_no_id_is_refused(ledger: Ledger, key: str) -> None:
    with pytest.raises(DecodeError, match="transfer in flight with the id"):
        ledger.load(Record(FLIGHT_KIND, key, struct.pack("<q", 10)))
    assert ledger.in_flight == {}


def test_a_transfer_takes_at_once_and_gives_when_its_message_comes_back(ledger: Ledger, log: Log) -> None:
    assert transfer(ledger, 1, "a", "b", 30).status is Status.OK
    assert (ledger.accounts, ledger.in_flight) == ({"a": 70, "b": 100}, {1: 30})
    deliver(ledger, log.offered.pop())
    assert (ledger.accounts, ledger.in_flight) == ({"a": 70, "b": 130}, {})


def test_an_account_never_gives_more_than_it_has(ledger: Ledger, log: Log) -> None:
    assert transfer(ledger, 1, "a", "b", INITIAL_BALANCE + 1).status is Status.CAS_FAILED
    assert (total(ledger), log.offered) == (2 * INITIAL_BALANCE, [])


@pytest.mark.parametrize(("source", "target", "amount"), [("a", "a", 1), ("", "b", 1), ("a", "", 1), ("a", "b", 0)])
def test_what_is_no_transfer_changes_nothing(ledger: Ledger, source: str, target: str, amount: int) -> None:
    assert transfer(ledger, 1, source, target, amount).status is Status.ERROR
    assert ledger.accounts == {}


def test_there_are_as_many_accounts_as_fit_into_an_answer(ledger: Ledger) -> None:
    ledger.accounts = {f"account-{number}": 0 for number in range(9_998)}
    assert transfer(ledger, 1, "a", "b", 1).status is Status.OK
    assert transfer(ledger, 2, "a", "c", 1).status is Status.ERROR
    assert len(ledger.accounts) == 10_000
    balances = decode_response(ledger.execute(encode_request(Request(3, Operation.BALANCES)), 256))
    assert balances.values is not None
    assert len(balances.values[1:]) == 10_000  # the first is what is in flight


def test_a_client_cannot_make_money(ledger: Ledger) -> None:
    transfer(ledger, 1, "a", "b", 30)
    forged = encode_request(Request(2, Operation.CREDIT, "b", struct.pack("<q", 1000)))
    assert decode_response(ledger.execute(forged, 160)).status is Status.ERROR
    assert total(ledger) == 2 * INITIAL_BALANCE


def test_a_message_that_comes_twice_is_seen(ledger: Ledger, log: Log) -> None:
    transfer(ledger, 1, "a", "b", 30)
    for _ in range(2):
        deliver(ledger, log.offered[0])
    read = decode_response(ledger.execute(encode_request(Request(2, Operation.BALANCES)), 256))
    assert read.values is not None
    assert sum(struct.unpack_from("<q", value)[0] for value in read.values) != 2 * INITIAL_BALANCE


def test_the_state_comes_back_from_a_snapshot_with_what_is_in_flight(ledger: Ledger, log: Log) -> None:
    random = Random(1)
    for number in range(50):
        source, target = random.sample("abcd", 2)
        transfer(ledger, number, source, target, random.randint(1, 60))
        if random.random() < 0.7 and log.offered:
            deliver(ledger, log.offered.pop(0))
    writer = StateWriter(MAX_LENGTH)
    ledger.on_take_snapshot(writer)
    loaded = Ledger()
    loaded.on_start(log, StateReader(writer.messages))
    assert (loaded.accounts, loaded.in_flight) == (ledger.accounts, ledger.in_flight)
    assert ledger.in_flight
    assert total(loaded) == 4 * INITIAL_BALANCE
    with pytest.raises(DecodeError):
        loaded.load(Record(1, "k", b"v"))
