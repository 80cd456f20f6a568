"""Work in tasks of Spark: an item each, in order, with temporary files that go with the executor."""

import tempfile
from pathlib import Path
from typing import Any

import pytest

from upheaval.errors import UsageError
from upheaval_pipeline.session import cause_of
from upheaval_pipeline.tasks import run_in_tasks
from upheaval_pipeline.workers import settle


def task_of(item: str) -> tuple[str, int, str]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    return item, context.partitionId(), tempfile.gettempdir()


def refused(item: str) -> str:
    raise UsageError(f"{item} is no run folder") if item == "c" else OSError(28, "No space left on device", item)


def test_each_item_has_a_task_and_the_results_are_in_order(spark: Any) -> None:
    items = list("edcba")
    results = run_in_tasks(spark, task_of, items)
    assert [(item, task) for item, task, _ in results] == list(zip(items, range(5), strict=True))
    # Spark kills the process of a task that it cancels, and removes this folder.
    assert all(Path(folder).name.startswith("blockmgr-") for _, _, folder in results)
    settle()
    assert not Path(tempfile.gettempdir()).name.startswith("blockmgr-")


@pytest.mark.parametrize(
    ("item", "why"), [("c", "UsageError: c is no run folder"), ("d", "No space left on device: 'd'")]
)
def test_what_a_task_raises_is_the_cause_of_the_failed_job(item: str, why: str, spark: Any) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException) as raised:
        run_in_tasks(spark, refused, [item])
    assert why in cause_of(raised.value)
