"""Work in tasks of Spark, on a session of this process as on one of Spark Connect, which has no RDDs.

This module knows nothing of what the tasks do.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from upheaval_pipeline.session import is_local
from upheaval_pipeline.workers import settle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MANY_ROWS: Final = 100_000
"""More than any cluster has cores."""
T = TypeVar("T")
Item = TypeVar("Item")


def run_in_tasks(spark: "SparkSession", work: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    """The results of `work`, in the order of the items; each item has a task to itself."""
    from pyspark.sql import is_remote

    if is_remote():
        return _run_on_server(spark, work, items)
    # The start of SQL would take seconds of a processor more.
    results: list[T] = spark.sparkContext.parallelize(items, len(items)).map(partial(_settled, work)).collect()
    return results


def _run_on_server(spark: "SparkSession", work: Callable[[Item], T], items: Sequence[Item]) -> list[T]:
    count = len(items)
    places = spark.range(0, count, 1, count)  # a partition each
    task = partial(_in_task, work, [pickle.dumps(item) for item in items])
    rows = places.mapInArrow(task, "place long, result binary").collect()
    results = {row.place: pickle.loads(row.result) for row in rows}
    return [results[place] for place in range(count)]


def _in_task(
    work: Callable[[Item], T], items: Sequence[bytes], places: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in places:
        for place in batch.column(0).to_pylist():
            result = _settled(work, pickle.loads(items[place]))
            yield pa.RecordBatch.from_pydict({"place": [place], "result": [pickle.dumps(result)]})


def _settled(work: Callable[[Item], T], item: Item) -> T:
    settle()
    return work(item)


def are_tasks_here(spark: "SparkSession") -> bool:
    """Whether tasks run on this machine, which has code that workers elsewhere lack."""
    from pyspark.sql import is_remote

    return not is_remote() and is_local(spark.sparkContext.master)


def cores_of(spark: "SparkSession") -> int:
    """How many tasks run at a time."""
    from pyspark.sql import is_remote

    return _cores_of_server(spark) if is_remote() else max(spark.sparkContext.defaultParallelism, 1)


@lru_cache(1)
def _cores_of_server(spark: "SparkSession") -> int:
    """As many as it cuts a range into, which takes a job."""
    return int(spark.range(_MANY_ROWS).selectExpr("spark_partition_id()").distinct().count())


def set_group(spark: "SparkSession", name: str) -> None:
    """Let jobs that this thread starts from here on be cancelled together."""
    from pyspark.sql import is_remote

    if is_remote():
        spark.addTag(name)
    else:
        # A session's tags are those of one thread, for which no other cancels them.
        spark.sparkContext.setJobGroup(name, "tasks of Upheaval", interruptOnCancel=True)


def cancel_group(spark: "SparkSession", name: str) -> None:
    """End the jobs of a group that run, whichever threads started them."""
    from pyspark.sql import is_remote

    if is_remote():
        spark.interruptTag(name)
    else:
        spark.sparkContext.cancelJobGroup(name)
