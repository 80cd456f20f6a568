"""Gaps in the ids of a history are found where the process that gives ids out records each one, and nowhere else."""

from collections.abc import Iterable, Mapping

import pytest

from upheaval.checkers.evidence.operation_ids import MissingIds, missing_ids
from upheaval.checkers.history.columns import History
from upheaval.records import Function, Json, Manifest, Operation, Outcome

DRAWN: Mapping[str, Json] = {"seed": 1, "keys": 3, "sessions": 2, "slots": 8, "rate": 25}
USERS = 1 << 58


def locust(user: str = "upheaval.load.users:WorkbenchUser") -> Mapping[str, Json]:
    return {"locust": {"users": 2, "user": user, "rate": 1, "duration_s": 1}}


def missing(
    ids: Iterable[int],
    workload: Mapping[str, Json],
    *,
    f: Function = Function.READ,
    first_id: int = 0,
) -> MissingIds | None:
    operations = [Operation(each, 0, f, "k", None, each, None, Outcome.UNKNOWN) for each in ids]
    manifest = Manifest("run-1", "process", 3, "test", 0, workload=workload)
    return missing_ids(History.of(operations), manifest, first_id)


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([0, 2, 1, 3], None),
        ([], None),
        ([1, 2], MissingIds(0, 1)),
        ([0, 1, 5, 9], MissingIds(2, 3)),
        ([0, 1, (1 << 60) + 77], None),
    ],
    ids=["settled in another order", "none", "the first", "the first gap", "one by hand"],
)
def test_a_drawn_load_gives_each_id_from_zero(ids: list[int], expected: MissingIds | None) -> None:
    assert missing(ids, DRAWN) == expected


def test_a_restored_run_goes_on_after_what_it_was_restored_with() -> None:
    assert missing([0, 3, 7, 8, 9], DRAWN, first_id=8) is None
    assert missing([0, 3, 7, 9], DRAWN, first_id=8) == MissingIds(8, 1)


def test_each_load_of_users_begins_somewhere() -> None:
    other = USERS + (1 << 50)
    ids = [USERS + 5, USERS + 6, other + 1, other + 2]
    assert missing(ids, locust()) is None
    assert missing([*ids, other + 9], locust()) == MissingIds(other + 3, 6)
    assert missing([USERS + 5, USERS + 9], locust("shop:Buyer")) is None


def test_calls_of_test_clients_follow_one_another_and_those_of_users_need_not() -> None:
    assert missing([0, 2], {}, f=Function.CALL) == MissingIds(1, 1)
    assert missing([0, 2], {**DRAWN, "user": "shop:Buyer"}, f=Function.CALL) is None
    assert missing([USERS, USERS + 2], locust(), f=Function.CALL) is None


def test_a_script_writes_down_what_was_answered() -> None:
    assert missing([0, 2], {}, f=Function.ECHO) is None
