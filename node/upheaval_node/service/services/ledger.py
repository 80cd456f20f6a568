"""The ledger service: accounts, and two-step transfers between them that conserve money.

A transfer takes the amount from one account at its own log entry, and offers a message to the log. The other account
gets the amount when that message comes back; in between, the amount is in flight. A newly named account has
INITIAL_BALANCE. So at every log position the balances and the amounts in flight add up to INITIAL_BALANCE per account,
unless a message of the service was lost or came twice.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from upheaval_node.derivable import mypyc_attr
from upheaval_node.errors import DecodeError
from upheaval_node.ports import Buffer
from upheaval_node.service.api import ClientSession, Cluster, SnapshotImage
from upheaval_node.service.services.encoding import (
    Operation,
    Request,
    Response,
    Status,
    decode_request,
    encode_request,
)
from upheaval_node.service.services.operations import LONG, OperationError, OperationService, accepted, required_long
from upheaval_node.service.services.state import Record

INITIAL_BALANCE: Final = 100
MAX_ACCOUNTS: Final = 10_000
"""The most accounts, because all balances must fit into one response."""

MAX_AMOUNT: Final = 1 << 40

ACCOUNT_KIND: Final = 5
FLIGHT_KIND: Final = 6

_SHOWN: Final = 40
"""How many characters of a wrong id an error shows."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Ledger(OperationService):
    """The operations TRANSFER and BALANCES.

    TRANSFER (key: from, expected: to, value: amount as int64) fails like a comparison when the balance is too low.
    BALANCES returns the amount in flight (with an empty name) and each account, by name: an int64 followed by the name
    in UTF-8.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}
        self.in_flight: dict[int, int] = {}
        self._cluster: Cluster | None = None
        super().__init__({Operation.TRANSFER: self._transfer, Operation.BALANCES: self._balances})

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        """Keep the cluster, which takes the second step of each transfer."""
        self._cluster = cluster
        super().on_start(cluster, snapshot_image)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        """Take a request of a client or, without a session, the second step of a transfer or another service's
        message.
        """
        if session is None:
            self.credit(payload)
        else:
            super().on_session_message(session, timestamp, payload, position)

    def credit(self, payload: Buffer) -> None:
        """Take the second step of a transfer, a message that this service offered. The cluster must deliver it exactly
        once.

        Messages that are not such a step, or name no account, come from other services of the member and are ignored.
        """
        try:
            request = decode_request(payload)
        except DecodeError:
            return
        is_credit = request.operation == Operation.CREDIT and len(request.value or b"") == LONG.size
        if not is_credit or request.key not in self.accounts:
            return
        self.accounts[request.key] += required_long(request)
        self.in_flight.pop(request.operation_id, None)

    def _transfer(self, request: Request, position: int) -> Response:
        amount, source = required_long(request), request.key
        target = _name(request.expected)
        if not 0 < amount <= MAX_AMOUNT:
            raise OperationError(f"amount {amount}, it must be from 1 to {MAX_AMOUNT}")
        if not source or not target or source == target:
            raise OperationError("a transfer needs two accounts with different names")
        if len({source, target} - self.accounts.keys()) + len(self.accounts) > MAX_ACCOUNTS:
            raise OperationError(f"there are already {MAX_ACCOUNTS} accounts")
        if request.operation_id in self.in_flight:
            raise OperationError(f"transfer {request.operation_id} is in flight")
        for name in (source, target):
            self.accounts.setdefault(name, INITIAL_BALANCE)
        if self.accounts[source] < amount:
            return Response(request.operation_id, request.operation, Status.CAS_FAILED, position)
        self.accounts[source] -= amount
        self.in_flight[request.operation_id] = amount
        assert self._cluster is not None
        self._cluster.offer(encode_request(Request(request.operation_id, Operation.CREDIT, target, LONG.pack(amount))))
        return accepted(request, position)

    def _balances(self, request: Request, position: int) -> Response:
        values = [LONG.pack(sum(self.in_flight.values()))]
        values += [LONG.pack(self.accounts[name]) + name.encode() for name in sorted(self.accounts)]
        return Response(request.operation_id, request.operation, Status.OK, position, values=tuple(values))

    # --- snapshots ---

    def records(self) -> Iterator[Record]:
        """The balances, then the transfers in flight, each in the order of creation."""
        for name, balance in self.accounts.items():
            yield Record(ACCOUNT_KIND, name, LONG.pack(balance))
        for transfer_id, amount in self.in_flight.items():
            yield Record(FLIGHT_KIND, str(transfer_id), LONG.pack(amount))

    def load(self, record: Record) -> None:
        """Load a record. Raises `DecodeError` when it is neither a balance nor a transfer in flight."""
        if record.kind not in (ACCOUNT_KIND, FLIGHT_KIND) or len(record.value) != LONG.size:
            raise DecodeError(f"record of kind {record.kind} with {len(record.value)} bytes is not one of a ledger")
        (number,) = LONG.unpack(record.value)
        if record.kind == ACCOUNT_KIND:
            self.accounts[record.key] = number
        else:
            self.in_flight[_transfer_id(record.key)] = number


def _transfer_id(key: str) -> int:
    """The transfer that a record is of. Raises `DecodeError` for a key that `Ledger.records` does not write."""
    with suppress(ValueError):
        transfer_id = int(key)
        if str(transfer_id) == key:
            return transfer_id
    raise DecodeError(f"record of a transfer in flight with the id {key[:_SHOWN]!r}")


def _name(value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise OperationError("the name of an account is not UTF-8 text") from None
