"""A session of Spark at a terminal: that it starts, and how far its stages are, in one line."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from upheaval.cli.output import note
from upheaval.cli.progress import ProgressLine
from upheaval_pipeline.session import LOCAL, session

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
    """`session` on a master (default: this machine), which raises as that does. Without stages it shows the start."""
    line = StageLine()
    line.show("starting Spark")
    try:
        with session(master or LOCAL) as spark, stages_shown(spark, line) if with_stages else nullcontext():
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
    end = threading.Event()
    thread = threading.Thread(target=_show, args=(spark, line, end), daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()
        line.clear()


def _show(spark: "SparkSession", line: StageLine, end: threading.Event) -> None:
    from py4j.protocol import Py4JError

    tracker = spark.sparkContext.statusTracker()
    try:
        while not end.wait(POLL_S):
            text = stages_text(tracker)
            if text:
                line.show(text)
    except (Py4JError, ConnectionError):
        # The session is at its end; who uses it has the error.
        return


def stages_text(tracker: Any) -> str:
    """What runs now; empty when nothing does."""
    stages = [stage for number in tracker.getActiveStageIds() if (stage := tracker.getStageInfo(number)) is not None]
    return (
        "Spark: "
        + "; ".join(f"stage {stage.stageId}, {stage.numCompletedTasks} of {stage.numTasks} tasks" for stage in stages)
        if stages
        else ""
    )
