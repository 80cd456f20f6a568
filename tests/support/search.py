"""The search for an order, in one call."""

from collections.abc import Iterable

from upheaval.checkers.history.models.sequential import SequentialModel
from upheaval.checkers.history.models.table import WORKBENCH_MODEL
from upheaval.checkers.history.search import CONFIGURATIONS_MAX, Prunings, finding, parts, search_keys
from upheaval.checkers.verdict import Finding
from upheaval.records import Operation

_ALL = Prunings()


def linearizable_by_search(
    operations: Iterable[Operation],
    *,
    model: SequentialModel = WORKBENCH_MODEL,
    limit: int = CONFIGURATIONS_MAX,
    prunings: Prunings = _ALL,
) -> Finding:
    return finding(search_keys(parts(operations, model), model, limit, prunings=prunings), limit)
