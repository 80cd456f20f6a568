"""The promise about money: the sum stays constant in every read of all balances and at the end of the log.

A transfer debits at its own entry and credits at the message that the service puts into the log for it; in between the
money is in flight. Requests and messages are applied in log order to an ideal ledger, which also gives each expected
answer. This module knows nothing of files.
"""

from collections.abc import Iterable
from typing import Final

from upheaval.checkers.checker import Source, by_log
from upheaval.checkers.evidence.events import Clock, ServiceMessage
from upheaval.checkers.evidence.logs import WitnessLog
from upheaval.checkers.evidence.run_evidence import Evidence
from upheaval.checkers.evidence.stalls import excused
from upheaval.checkers.history.columns import ById, LogEntry
from upheaval.checkers.promises import Promise
from upheaval.checkers.services import shipped
from upheaval.checkers.services.requests_and_events import judge_in_log_order, require_answer
from upheaval.checkers.services.shipped import services_of
from upheaval.checkers.verdict import Broken, Result, Verdict
from upheaval.records import LEDGER, Function, Json, Outcome
from upheaval_node.service.services.ledger import INITIAL_BALANCE, MAX_ACCOUNTS, MAX_AMOUNT


def judge_ledger(
    operations: ById,
    requests: Iterable[LogEntry],
    messages: Iterable[ServiceMessage],
    time_unit: int = 0,
) -> list[Result]:
    """Judge the ledger. Requests and messages are in log order."""
    return judge_in_log_order(Promise.MONEY_CONSERVED, _Judge(operations), requests, messages, time_unit)


class _Judge:
    def __init__(self, operations: ById) -> None:
        self._operations = operations
        self._accounts: dict[str, int] = {}
        self._flight: dict[int, tuple[LogEntry, str, int]] = {}
        self._reads = self._transfers = 0

    def request(self, entry: LogEntry) -> None:
        expected = self._balances() if entry.f is Function.BALANCES else self._transfer(entry)
        operation = self._operations.get(entry.id)
        if operation is None or operation.outcome is not Outcome.OK:
            return
        if entry.f is Function.BALANCES:
            self._require_sum(operation.result, entry)
            self._reads += 1
        require_answer(operation, expected, entry.position)

    def _require_sum(self, result: Json, entry: LogEntry) -> None:
        rows = [row for row in result if isinstance(row, list)] if isinstance(result, list) else []
        numbers = [row[1] for row in rows if len(row) == 2 and isinstance(row[1], int)]
        accounts = sum(row[0] != "" for row in rows)
        if sum(numbers) != accounts * INITIAL_BALANCE:
            detail = (
                f"the balances read by operation id={entry.id} at position {entry.position} are {sum(numbers)} "
                f"together, {accounts} accounts began with {accounts * INITIAL_BALANCE}"
            )
            raise Broken(Verdict.INVALID, detail, position=entry.position, operation=entry.id)

    def _transfer(self, entry: LogEntry) -> Json:
        """Apply a transfer. Returns the expected answer; None for a refusal."""
        assert isinstance(entry.value, list)
        target, amount = entry.value
        if not isinstance(target, str) or not isinstance(amount, int) or not 0 < amount <= MAX_AMOUNT:
            return None
        names = {entry.key, target}
        is_full = len(self._accounts) + len(names - self._accounts.keys()) > MAX_ACCOUNTS
        if len(names) != 2 or "" in names or is_full or entry.id in self._flight:
            return None
        for name in (entry.key, target):
            self._accounts.setdefault(name, INITIAL_BALANCE)
        if self._accounts[entry.key] < amount:
            return False
        self._accounts[entry.key] -= amount
        self._flight[entry.id] = (entry, target, amount)
        self._transfers += 1
        return True

    def _balances(self) -> Json:
        flight: list[Json] = ["", sum(amount for _, _, amount in self._flight.values())]
        rows: list[Json] = [[name, self._accounts[name]] for name in sorted(self._accounts)]
        return [flight, *rows]

    def event(self, message: ServiceMessage) -> None:
        credit = message.credit
        if credit is None:
            return
        entry, target, amount = self._flight.pop(credit.transfer_id, (None, "", 0))
        if entry is None or (target, amount) != (credit.account, credit.amount):
            detail = (
                f"{credit.amount} for account {credit.account} by transfer {credit.transfer_id} at position "
                f"{message.position}: that transfer has nothing in flight, so money was made"
            )
            raise Broken(Verdict.INVALID, detail, position=message.position, operation=credit.transfer_id)
        self._accounts[target] += amount

    def require_none_lost(self, clock: Clock) -> None:
        for entry, target, amount in self._flight.values():
            late_ms = clock.late_ms(entry.position, entry.timestamp)
            if late_ms:
                detail = (
                    f"{amount} of transfer {entry.id} at position {entry.position} never came to account {target}: "
                    f"the log goes on for {clock.ms_after(entry.position, entry.timestamp)} ms after it"
                )
                raise Broken(Verdict.INVALID, detail, position=entry.position, operation=entry.id, late_ms=late_ms)

    def shown(self) -> str:
        total = len(self._accounts) * INITIAL_BALANCE
        return (
            f"{self._transfers} transfers between {len(self._accounts)} accounts with {total} together, "
            f"{self._reads} reads of all of it, {len(self._flight)} transfers in flight at the end"
        )


def _check(evidence: Evidence, log: WitnessLog) -> Iterable[Result]:
    events = log.events
    is_asked = log.entries.has_any(LEDGER)
    messages = events.service_messages if is_asked or shipped.LEDGER in services_of(evidence.manifest) else ()
    results = judge_ledger(evidence.operations, log.entries.those(LEDGER), messages, events.time_unit)
    return excused(results, lambda: evidence.stall)


LEDGER_CHECKER: Final = by_log("ledger", (Promise.MONEY_CONSERVED,), _check, {Source.HISTORY})
