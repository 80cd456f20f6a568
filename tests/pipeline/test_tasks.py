"""Work in tasks of Spark, as RDDs or rows: an item each, in order, with temporary files that go with the executor."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from upheaval.errors import UsageError
from upheaval_pipeline.session import cause_of
from upheaval_pipeline.tasks import _run_on_server, run_in_tasks
from upheaval_pipeline.workers import settle

Run = Callable[..., list[Any]]
BY_BOTH = pytest.mark.parametrize("run", [run_in_tasks, _run_on_server])


def task_of(item: str) -> tuple[str, int, str]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return item, context.partitionId(), tempfile.gettempdir()


def refused(item: str) -> str:
    raise UsageError(f"{item} is no run folder") if item == "c" else OSError(28, "No space left on device", item)


@BY_BOTH
def test_each_item_has_a_task_and_the_results_are_in_order(run: Run, spark: Any) -> None:
    items = list("edcba")
    results = run(spark, task_of, items)
    assert [(item, task) for item, task, _ in results] == list(zip(items, range(5), strict=True))
    # Spark kills the process of a task that it cancels, and removes this folder.
    assert all(Path(folder).name.startswith("blockmgr-") for _, _, folder in results)
    settle()
    assert not Path(tempfile.gettempdir()).name.startswith("blockmgr-")


@BY_BOTH
@pytest.mark.parametrize(
    ("item", "why"), [("c", "UsageError: c is no run folder"), ("d", "No space left on device: 'd'")]
)
def test_what_a_task_raises_is_the_cause_of_the_failed_job(run: Run, item: str, why: str, spark: Any) -> None:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    with pytest.raises((PySparkException, Py4JError)) as raised:
        run(spark, refused, [item])
    assert why in cause_of(raised.value)
