"""How far the logs of each run can be read and are proof: known in this process, and joined to its tables by run.

A row a member and a row a run, however long the logs are.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame

from upheaval.checkers.evidence.positions import LogBounds, bounds_of, completed_ns, finals_of, lowest_commit
from upheaval_pipeline.evidence import Evidence
from upheaval_pipeline.run_tables import Run, RunTables

_LOGS = "run int, member int, log_end long, log_start long, segment_length long, until long"
_RUNS = (
    "run int, member int, log_end long, until long, logs int, recorded long, lowest_commit long, completed_ns long, "
    "answer_ns long"
)
_LONG_MAX = (1 << 63) - 1


class Reach:
    """Of the logs of many runs; `ends` are the rows of `judged_logs.member_ends`."""

    logs: DataFrame
    """Every log that can be read: from where to where, and until where it is compared with the others."""
    runs: DataFrame
    """Every run: its longest log, until where that counts, how many logs there are, and what bounds its history."""
    too_short: DataFrame | None
    """Logs that end before the final position of their member; None when there is none."""

    def __init__(self, tables: RunTables, ends: Sequence[Any]) -> None:
        self._ends: list[list[Any]] = [[] for _ in tables.runs]
        for row in sorted(ends, key=lambda row: row.member):
            self._ends[row.run].append(row)
        self.bounds = [_bounds(run, logs) for run, logs in zip(tables.runs, self._ends, strict=True)]
        logs, runs, too_short = [], [], []
        for place, run in enumerate(tables.runs):
            finals, limit = finals_of(run.manifest), self.bounds[place].commit_position
            for row in self._ends[place]:
                until = _least(row.log_end, limit if finals else None)
                logs.append((place, row.member, row.log_end, row.log_start, row.segment_length, until))
                if any(row.log_end < final.append_position for final in finals if final.member_id == row.member):
                    too_short.append((place, row.member, row.log_end))
            runs.append((place, *self._longest(place, limit), *_of_history(run, self.bounds[place])))
        spark = tables.history.sparkSession
        self.logs = spark.createDataFrame(logs, _LOGS)
        self.runs = spark.createDataFrame(runs, _RUNS)
        self.too_short = spark.createDataFrame(too_short, "run int, member int, log_end long") if too_short else None

    def _longest(self, place: int, limit: int | None) -> tuple[int | None, ...]:
        ends = self._ends[place]
        longest = max(ends, key=lambda row: (row.log_end, -row.member), default=None)
        if longest is None:
            return None, None, None, 0
        return longest.member, longest.log_end, _least(longest.log_end, limit), len(ends)

    def evidence(self, place: int) -> Iterator[Evidence]:
        """Where each log of a run ends, and why."""
        for row in self._ends[place]:
            told = {"log_start": row.log_start, "fault": row.fault, "segment_length": row.segment_length}
            yield Evidence("log", row.member, row.log_end, json.dumps(told))


def _bounds(run: Run, ends: Sequence[Any]) -> LogBounds:
    positions = {row.member: row.log_end for row in ends}
    return bounds_of(finals_of(run.manifest), run.aside.positions, positions, run.manifest.members)


def _of_history(run: Run, bounds: LogBounds) -> tuple[int | None, ...]:
    answer_ns = min(run.aside.clients.answer_ns, _LONG_MAX)
    return bounds.recorded, lowest_commit(run.manifest), completed_ns(run.manifest), answer_ns


def _least(end: int, limit: int | None) -> int:
    return end if limit is None else min(end, limit)
