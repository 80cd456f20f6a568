"""A session of Spark at a terminal: that it starts, and how far its stages are, in one line."""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from upheaval.cli.output import note
from upheaval.cli.progress import ProgressLine
from upheaval_pipeline.connect import connect_session
from upheaval_pipeline.session import LOCAL, is_connect, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S: Final = 0.5


class StageLine:
    """The line. Other threads may print lines of their own by `say`."""

    def __init__(self) -> None:
        self._line = ProgressLine()
        self._lock = threading.Lock()

    def show(self, text: str) -> None:
        """Replace the line, where standard error is a terminal."""
        with self._lock:
            self._line.show(text)

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._line.clear()
            note(f"upheaval: {text}")

    def clear(self) -> None:
        """Leave nothing of the line."""
        with self._lock:
            self._line.clear()


@dataclass(frozen=True, slots=True)
class ShownSession:
    """A session, and the line that shows it."""

    spark: "SparkSession"
    line: StageLine


@contextmanager
def shown_session(master: str | None, *, with_stages: bool = True) -> Iterator[ShownSession]:
    """A session on a master (default: this machine), which raises as `session` and `connect_session` do. Without stages
    it shows the start.
    """
    line = StageLine()
    line.show("starting Spark")
    started = connect_session(master, with_tasks=True) if is_connect(master) else session(master or LOCAL)
    try:
        with started as spark, stages_shown(spark, line) if with_stages else nullcontext():
            line.clear()
            yield ShownSession(spark, line)
    finally:
        line.clear()


@contextmanager
def stages_shown(spark: "SparkSession", line: StageLine) -> Iterator[None]:
    """While the block runs, the line says how many tasks of each stage are done. Without a terminal: nothing."""
    if not sys.stderr.isatty():
        yield
        return
    from pyspark.sql import is_remote

    try:
        with (_shown_by_server if is_remote() else _shown_by_tracker)(spark, line):
            yield
    finally:
        line.clear()


@contextmanager
def _shown_by_server(spark: "SparkSession", line: StageLine) -> Iterator[None]:
    def show(stages: Iterable[Any], done: bool, **_: object) -> None:
        running = [stage for stage in stages if not stage.done]
        if done:
            line.clear()
        elif running:
            line.show(_text((stage.stage_id, stage.num_completed_tasks, stage.num_tasks) for stage in running))

    spark.registerProgressHandler(show)
    try:
        yield
    finally:
        spark.removeProgressHandler(show)


@contextmanager
def _shown_by_tracker(spark: "SparkSession", line: StageLine) -> Iterator[None]:
    end = threading.Event()
    thread = threading.Thread(target=_show, args=(spark, line, end), daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def _show(spark: "SparkSession", line: StageLine, end: threading.Event) -> None:
    from py4j.protocol import Py4JError

    tracker = spark.sparkContext.statusTracker()
    try:
        while not end.wait(POLL_S):
            running = [stage for one in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(one)) is not None]
            if running:
                line.show(_text((stage.stageId, stage.numCompletedTasks, stage.numTasks) for stage in running))
    except (Py4JError, ConnectionError):
        # The session is at its end; who uses it has the error.
        return


def _text(stages: Iterable[tuple[int, int, int]]) -> str:
    return "Spark: " + "; ".join(f"stage {number}, {done} of {count} tasks" for number, done, count in stages)
