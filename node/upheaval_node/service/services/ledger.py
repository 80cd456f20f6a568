"""The ledger service: accounts, and transfers between them that conserve money, each in two steps.

A transfer takes the amount from one account at its own entry in the log, and offers a message to the log; the other
account gets the amount when that message comes back. In between it is in flight. An account that is named for the first
time has INITIAL_BALANCE. So the balances and what is in flight are together INITIAL_BALANCE for each account, at every
place of the log; a message of the service that is lost or comes twice breaks that.
"""

import struct
from collections.abc import Iterator
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
from upheaval_node.service.services.operations import OperationError, OperationService, accepted, required_value
from upheaval_node.service.services.state import Record

INITIAL_BALANCE: Final = 100
MAX_ACCOUNTS: Final = 10_000
"""All balances must fit into one response."""

MAX_AMOUNT: Final = 1 << 40

ACCOUNT_KIND: Final = 5
FLIGHT_KIND: Final = 6

_LONG: Final = struct.Struct("<q")


@mypyc_attr(allow_interpreted_subclasses=True)
class Ledger(OperationService):
    """TRANSFER (key: from, expected: to, value: amount as int64) fails like a comparison without enough money.

    BALANCES gives what is in flight (name empty) and each account, by name: an int64 and the name in UTF-8 each.
    """

    def __init__(self) -> None:
        self.accounts: dict[str, int] = {}
        self.in_flight: dict[int, int] = {}
        self._cluster: Cluster | None = None
        super().__init__({Operation.TRANSFER: self._transfer, Operation.BALANCES: self._balances})

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        """Keeps the cluster, through which the second step of a transfer is offered."""
        self._cluster = cluster
        super().on_start(cluster, snapshot_image)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        """A message without a session is the second step of a transfer, or one of another service."""
        if session is None:
            self.credit(payload)
        else:
            super().on_session_message(session, timestamp, payload, position)

    def credit(self, payload: Buffer) -> None:
        """The second step of a transfer: a message that this service offered. Trusts the cluster with how often.

        What another service of the member has offered is left alone.
        """
        try:
            request = decode_request(payload)
        except DecodeError:
            return
        if request.operation != Operation.CREDIT:
            return
        self.accounts[request.key] += _long(request)
        self.in_flight.pop(request.operation_id, None)

    def _transfer(self, request: Request, position: int) -> Response:
        amount, source = _long(request), request.key
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
        self._cluster.offer(encode_request(Request(request.operation_id, Operation.CREDIT, target, _LONG.pack(amount))))
        return accepted(request, position)

    def _balances(self, request: Request, position: int) -> Response:
        values = [_LONG.pack(sum(self.in_flight.values()))]
        values += [_LONG.pack(self.accounts[name]) + name.encode() for name in sorted(self.accounts)]
        return Response(request.operation_id, request.operation, Status.OK, position, values=tuple(values))

    # --- snapshots ---

    def records(self) -> Iterator[Record]:
        """The balances, then what is in flight, each in the order in which it came to be."""
        for name, balance in self.accounts.items():
            yield Record(ACCOUNT_KIND, name, _LONG.pack(balance))
        for transfer_id, amount in self.in_flight.items():
            yield Record(FLIGHT_KIND, str(transfer_id), _LONG.pack(amount))

    def load(self, record: Record) -> None:
        """Raises `DecodeError` for a record that is neither a balance nor a transfer in flight."""
        if record.kind not in (ACCOUNT_KIND, FLIGHT_KIND) or len(record.value) != _LONG.size:
            raise DecodeError(f"record of kind {record.kind} with {len(record.value)} bytes is not one of a ledger")
        (number,) = _LONG.unpack(record.value)
        if record.kind == ACCOUNT_KIND:
            self.accounts[record.key] = number
        else:
            self.in_flight[int(record.key)] = number


def _long(request: Request) -> int:
    value = required_value(request)
    if len(value) != _LONG.size:
        raise OperationError(f"the value has {len(value)} bytes instead of {_LONG.size}")
    number: int = _LONG.unpack(value)[0]
    return number


def _name(value: bytes | None) -> str:
    try:
        return (value or b"").decode()
    except UnicodeDecodeError:
        raise OperationError("the name of an account is not UTF-8 text") from None
