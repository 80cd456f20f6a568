"""The streaming query of `upheaval watch`: facts from the files of a run, and the groups that they are judged in.

Spark reads the files, brings what belongs together to one task and keeps the states; `live_ranges`, `live_results` and
`live_terms` judge.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import pandas as pd
from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from upheaval.records import WORKBENCH, Function, Outcome
from upheaval_pipeline import live_ranges, live_results, live_terms
from upheaval_pipeline.facts import (
    ANSWER,
    BAD,
    CLAIM,
    EXTENT,
    FACT,
    FRAME,
    LATE_MS,
    RANGE,
    RESULT,
    TERM,
    Fact,
    Moment,
    Told,
)
from upheaval_pipeline.judged_history import group_of, space_of
from upheaval_pipeline.judged_logs import ANNOUNCES, logged_claim, traced_claims
from upheaval_pipeline.tables import POSITION_RANGE
from upheaval_pipeline.workers import settle

_KINDS = [tuple(column.split()) for column in FACT.split(", ")]
_WORKBENCH = [function.value for function in WORKBENCH]


def watched(spark: SparkSession, folder: Path, members: int) -> DataFrame:
    """What is told of the run in the folder, as `Told.to_json`, a row a group and batch."""
    history, recording, trace = (
        spark.readStream.format(name).load(str(folder.absolute())) for name in ("history", "recording", "trace")
    )
    # The history comes first: the union takes its watermark from there.
    facts = _of_history(history).union(_of_recording(recording)).union(_of_trace(trace))
    return facts.groupBy("judge", "group").applyInPandasWithState(
        partial(_judged, members), "told string", "state string", "append", GroupStateTimeout.EventTimeTimeout
    )


def _of_history(history: DataFrame) -> DataFrame:
    """What clients were told, but for calls, whose operations the log does not name."""
    ns = F.coalesce("complete_ns", "invoke_ns")
    # What is not after a watermark is late, and the first one is 0.
    timed = history.withColumn("at", F.timestamp_micros(F.floor(ns / 1000) + 1)).withWatermark(
        "at", f"{LATE_MS} milliseconds"
    )
    is_answer = (F.col("outcome") == Outcome.OK.value) & (F.col("f") != Function.CALL.value) & (F.col("position") > 0)
    said = {"id": F.col("id"), "end": F.col("position"), "ns": F.col("complete_ns"), **_operation("result")}
    by_range, by_key = _of_range(F.col("position")), _of_key(F.col("id"))
    return _facts(
        timed,
        F.col("at"),
        _fact(is_answer, RANGE, by_range, ANSWER, said),
        _fact(is_answer & F.col("f").isin(_WORKBENCH), RESULT, by_key, ANSWER, said),
        _rejected(),
    )


def _of_recording(recording: DataFrame) -> DataFrame:
    """Frames, how far they were read, and what they say of leaders; operations by their keys, too, of whole logs."""
    said = {
        "member": F.col("member"),
        "begin": F.col("position"),
        "end": F.col("end_position"),
        "digest": F.col("digest"),
        "id": F.coalesce("operation_id", F.lit(-1)),
        **_operation(),
        "f": F.when(F.col("operation_id").isNotNull(), F.col("f")),
    }
    is_frame = F.col("kind").isin("frame", "message", "padding")
    is_extent = (F.col("kind") == "extent") & (F.col("end_position") > F.col("position"))
    has_result = F.col("operation_id").isNotNull() & (F.col("start_position") == 0) & F.col("f").isin(_WORKBENCH)
    ranges = F.sequence(_range(F.col("position") + 1), _range(F.col("end_position")))
    extents = F.transform(ranges, lambda number: _struct(RANGE, number.cast("string"), EXTENT, said))
    return _facts(
        recording,
        None,
        _fact(is_frame, RANGE, _of_range(F.col("end_position")), FRAME, said),
        _fact(has_result, RESULT, _of_key(F.col("operation_id")), FRAME, said),
        _claim(F.expr(ANNOUNCES), logged_claim()),
        several=F.when(is_extent, extents),
    )


def _of_trace(trace: DataFrame) -> DataFrame:
    claims = F.transform(traced_claims(), lambda claim: _claim(F.lit(True), claim))
    return _facts(trace, None, _rejected(), several=claims)


def _rejected() -> Any:
    """A line that makes no sense."""
    return _fact(F.col("_reject").isNotNull(), BAD, F.col("_reject"), BAD, {})


def _operation(*more: str) -> dict[str, Any]:
    return {name: F.col(name) for name in ("f", "key", "value", *more)}


def _range(end: Any) -> Any:
    """The number of the range of positions in which what ends there lies."""
    return F.floor((end - 1) / POSITION_RANGE)


def _of_range(end: Any) -> Any:
    return _range(end).cast("string")


def _of_key(operation: Any) -> Any:
    f = F.col("f")
    return F.concat(space_of(f).cast("string"), F.lit(":"), group_of(f, operation, F.col("key")))


def _claim(is_claim: Any, claim: Any) -> Any:
    """By the order in which `upheaval verify` takes them."""
    by = claim["by"]
    said = {"digest": by[0], "member": by[1], "begin": by[2], "id": claim["leader"], "value": claim["source"]}
    return _fact(is_claim & claim["term"].isNotNull(), TERM, claim["term"].cast("string"), CLAIM, said)


def _fact(condition: Any, judge: str, group: Any, what: str, said: Mapping[str, Any]) -> Any:
    return F.when(condition, _struct(judge, group, what, said))


def _struct(judge: str, group: Any, what: str, said: Mapping[str, Any]) -> Any:
    known = {"what": F.lit(what), **said}
    nothing = {"string": F.lit(None), "long": F.lit(-1)}
    columns = [
        F.coalesce(known.get(name, nothing[kind]), nothing[kind]).cast(kind).alias(name) for name, kind in _KINDS
    ]
    return F.struct(F.lit(judge).alias("judge"), group.alias("group"), *columns)


def _facts(rows: DataFrame, at: Any, *single: Any, several: Any = None) -> DataFrame:
    """All facts of the rows: single ones, null where a row says no such thing, and an array of others."""
    found = F.array_compact(F.array(*single))
    if several is not None:
        found = F.concat(found, F.coalesce(several, F.slice(found, 1, 0)))
    time = F.lit(None).cast("timestamp") if at is None else at
    facts = rows.select(time.alias("at"), F.explode(found).alias("fact"))
    return facts.select("at", "fact.judge", "fact.group", *(f"fact.{name}" for name, _ in _KINDS))


def _judged(
    members: int, key: tuple[str, str], frames: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """What Spark's tasks run on a group: the state is read, the facts are judged, the state is kept."""
    settle()
    judge, name = key
    group = _Group(name, members, state.get[0] if state.exists else None, state)
    told = _GIVE_UP[judge](group) if state.hasTimedOut else _JUDGES[judge](group, _read(frames))
    text = told.to_json()
    if text is not None:
        yield pd.DataFrame({"told": [text]})


def _read(frames: Iterator[pd.DataFrame]) -> list[Fact]:
    columns = ([frame[name].tolist() for name in Fact._fields] for frame in frames)
    return [Fact(*row) for each in columns for row in zip(*each, strict=True)]


@dataclass(frozen=True)
class _Group:
    """What is judged together, and what is known of it."""

    name: str
    members: int
    kept: str | None
    """The state as JSON; None of a new group."""
    state: GroupState

    def moment(self, facts: list[Fact]) -> Moment:
        return Moment(self.state.getCurrentWatermarkMs(), max(fact.ns for fact in facts) // 1_000_000)

    def keep(self, known: str, until_ms: int | None = None) -> None:
        """For ever, or until the history's time has come there."""
        self.state.update((known,))
        if until_ms is not None:
            self.state.setTimeoutTimestamp(until_ms)


def _judge_range(group: _Group, facts: list[Fact]) -> Told:
    known = live_ranges.range_of(group.members, group.kept)
    told = known.judge(int(group.name), facts)
    group.keep(known.to_json(), group.moment(facts).patience_ms)
    return told


def _judge_result(group: _Group, facts: list[Fact]) -> Told:
    known = live_results.key_of(group.kept)
    told = known.judge(facts, group.moment(facts))
    group.keep(known.to_json(), known.waits_until_ms)
    return told


def _judge_term(group: _Group, facts: list[Fact]) -> Told:
    known = live_terms.term_of(group.kept)
    told = known.judge(int(group.name), facts)
    group.keep(known.to_json())
    return told


def _judge_bad(group: _Group, _: list[Fact]) -> Told:
    return Told(unreadable=[group.name])


def _give_up_range(group: _Group) -> Told:
    group.state.remove()
    return Told(given_up=len(live_ranges.range_of(group.members, group.kept).answers))


def _give_up_result(group: _Group) -> Told:
    known = live_results.key_of(group.kept)
    known.give_up(group.state.getCurrentWatermarkMs())
    group.keep(known.to_json(), known.waits_until_ms)
    return Told()


_JUDGES: Final[Mapping[str, Callable[[_Group, list[Fact]], Told]]] = {
    RANGE: _judge_range,
    RESULT: _judge_result,
    TERM: _judge_term,
    BAD: _judge_bad,
}
_GIVE_UP: Final[Mapping[str, Callable[[_Group], Told]]] = {RANGE: _give_up_range, RESULT: _give_up_result}
