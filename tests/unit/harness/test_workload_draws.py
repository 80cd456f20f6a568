"""What the workloads of ledger and timers ask for: seeded, within bounds, and only timers that there are."""

import pytest

from upheaval.errors import UsageError
from upheaval.records import LEDGER, TIMERS, Function, Json
from upheaval.workload import AMOUNT_MAX, DELAYS_MS, WorkloadSettings, make_draw


def drawn(service: str, seed: int = 1, count: int = 1000) -> list[tuple[Function, str, Json]]:
    draw = make_draw(WorkloadSettings(seed=seed, keys=4, service=service))
    return [draw.next(number) for number in range(count)]


@pytest.mark.parametrize(("service", "functions"), [("ledger", LEDGER), ("timers", TIMERS)])
def test_a_seed_gives_one_sequence_of_all_that_the_service_can_do(
    service: str, functions: tuple[Function, ...]
) -> None:
    assert drawn(service) == drawn(service) != drawn(service, seed=2)
    assert {function for function, _, _ in drawn(service)} == set(functions)


def test_transfers_are_between_two_accounts_of_a_few() -> None:
    transfers = [(key, value) for function, key, value in drawn("ledger") if function is Function.TRANSFER]
    for source, value in transfers:
        assert isinstance(value, list)
        target, amount = value
        assert source != target
        assert isinstance(amount, int)
        assert 1 <= amount <= AMOUNT_MAX
    assert {source for source, _ in transfers} == {"a0", "a1", "a2", "a3"}


def test_only_timers_that_were_scheduled_are_cancelled() -> None:
    scheduled = set()
    for number, (function, _, value) in enumerate(drawn("timers")):
        if function is Function.SCHEDULE:
            scheduled.add(number)
            assert value in DELAYS_MS
        assert function is not Function.CANCEL or value in scheduled


def test_a_service_without_a_workload_is_refused() -> None:
    with pytest.raises(UsageError, match="use clients of your own"):
        make_draw(WorkloadSettings(service="bank:Bank"))
