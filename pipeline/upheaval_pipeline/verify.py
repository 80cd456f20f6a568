"""`upheaval verify --engine spark`: the promises of `upheaval.checkers`, judged by Spark.

Joins, sorts and grouping are Spark's. Every promise ends in evidence, one row with a count and the first violation;
these rows alone come back to this process, which words the findings. Shared with the in-process checker is what
judges one key: `witness.linearizable`.

| promise | columns | partition key |
|---|---|---|
| acknowledged operations are not lost | id, f, key, value, position | operation id |
| no operation is applied twice | id, position | operation id |
| the history explains the log | id, position | operation id |
| linearizable: results | id, f, key, value, result, position | key |
| linearizable: real time | position, invoke_ns, complete_ns | position range |
| logs are equal | position, digest | position |
| every log reaches its final position | from_position, to_position, end_position | member |
| one leader a term | leadership_term_id, leader_member_id | term |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.window import Window

from upheaval.checkers import run as in_process
from upheaval.checkers.verdict import Report
from upheaval.run_folder import Manifest, RunFolder
from upheaval_pipeline import sources
from upheaval_pipeline.findings import Evidence, findings
from upheaval_pipeline.keys import GROUP_RESULT, judge_groups

ECHO_GROUPS = 64
POSITION_RANGE = 1 << 18


@dataclass
class _Tables:
    """What is read, and what several promises need of it."""

    operations: DataFrame
    bad_history: DataFrame
    trace: DataFrame
    frames: DataFrame
    ends: DataFrame
    entries: DataFrame


def verify(spark: SparkSession, folder: Path) -> Report:
    """Judge one run. Raises `UsageError` as the in-process checker does, for a folder or line that is malformed."""
    run = RunFolder(folder)
    manifest = run.read_manifest()
    tables = _read(spark, folder, manifest)
    parts = [
        *_bad_lines(tables),
        _traffic(tables),
        _ends(tables),
        _missing(tables),
        _leaders(tables),
        _difference(tables, manifest),
        _acknowledged(tables),
        _applied_once(tables),
        _results(tables),
        _real_time(tables),
        _explained(tables),
    ]
    gathered = reduce(DataFrame.union, parts)
    rows = [Evidence(row.kind, row.key, row.number, row.text) for row in gathered.collect()]  # verdict rows
    spark.catalog.clearCache()
    return Report(str(run.path), tuple(findings(run, manifest, rows)))


def _read(spark: SparkSession, folder: Path, manifest: Manifest) -> _Tables:
    known = F.col("member") < manifest.members
    frames = sources.load(spark, "recording", [folder]).where(known).drop("payload").persist()
    history = sources.load(spark, "history", [folder]).persist()
    ends = _member_ends(frames)
    longest = ends.orderBy(F.desc("log_end"), "member").limit(1)
    entries = (
        frames.where("operation_id IS NOT NULL")
        .join(F.broadcast(longest), "member")
        .where("end_position <= log_end")
        .select(F.col("operation_id").alias("id"), "f", "key", "value", F.col("end_position").alias("position"))
    )
    return _Tables(
        operations=history.where("_reject IS NULL"),
        bad_history=history.where("_reject IS NOT NULL"),
        trace=sources.load(spark, "trace", [folder]).where(known).persist(),
        frames=frames,
        ends=ends,
        entries=entries,
    )


def _member_ends(frames: DataFrame) -> DataFrame:
    """How far each member's log can be read: its pieces, as long as each one is full and the next one follows."""
    order = Window.partitionBy("member").orderBy("from_position")
    before = order.rowsBetween(Window.unboundedPreceding, 0)
    follows = (F.lag("to_position").over(order) == F.col("from_position")) & (
        F.lag("end_position").over(order) == F.lag("to_position").over(order)
    )
    extents = frames.where("kind = 'extent'").withColumn(
        "gap", F.when(F.coalesce(follows, F.lit(True)), 0).otherwise(1)
    )
    return (
        extents.withColumn("gaps", F.sum("gap").over(before))
        .where("gaps = 0")
        .groupBy("member")
        .agg(
            F.max("end_position").alias("log_end"),
            F.min("start_position").alias("log_start"),
            F.max_by("_reject", "from_position").alias("fault"),
        )
    )


def _evidence(kind: str, number: Any, text: Any, key: Any = None) -> list[Any]:
    none = F.lit(None)
    return [
        F.lit(kind).alias("kind"),
        (none if key is None else key).cast("long").alias("key"),
        (none if number is None else number).cast("long").alias("number"),
        (none if text is None else text).cast("string").alias("text"),
    ]


def _first(order: str) -> Any:
    """The violation that comes first, or null; rows without one have a null `violation`."""
    return F.min_by("violation", F.when(F.col("violation").isNotNull(), F.col(order)))


def _judged(frame: DataFrame, kind: str, order: str) -> DataFrame:
    """One row: how many rows were judged, and the first violation."""
    return frame.agg(F.count(F.lit(1)).alias("number"), _first(order).alias("text")).select(
        *_evidence(kind, F.col("number"), F.col("text"))
    )


def _bad_lines(tables: _Tables) -> Sequence[DataFrame]:
    history = tables.bad_history.orderBy("line").limit(1)
    trace = tables.trace.where("_reject IS NOT NULL").orderBy("member", "line").limit(1)
    twice = tables.operations.groupBy("id").agg(F.count(F.lit(1)).alias("n"), F.max("line").alias("offset"))
    return (
        history.select(*_evidence("bad history", F.col("line"), F.col("_reject"))),
        trace.select(*_evidence("bad trace", F.col("line"), F.col("_reject"))),
        twice.where("n > 1")
        .orderBy("offset")
        .limit(1)
        .select(*_evidence("id twice", F.col("offset"), None, F.col("id"))),
    )


def _traffic(tables: _Tables) -> DataFrame:
    counted = tables.operations.groupBy("outcome", "f").agg(F.count(F.lit(1)).alias("n"))
    return counted.select(*_evidence("traffic", F.col("n"), F.concat_ws(" ", "outcome", "f")))


def _ends(tables: _Tables) -> DataFrame:
    described = F.to_json(F.struct("log_start", "fault"))
    return tables.ends.select(*_evidence("log", F.col("log_end"), described, F.col("member")))


def _missing(tables: _Tables) -> DataFrame:
    missing = tables.frames.where("kind IS NULL")
    return missing.select(*_evidence("no log", None, F.col("_reject"), F.col("member")))


def _leaders(tables: _Tables) -> DataFrame:
    """Claims as `upheaval.checkers.run` finds them, grouped by term."""
    place = F.format_string("member-%d/trace.jsonl:%d", "member", "line")
    term = F.col("leadership_term_id").alias("term")
    trace = tables.trace.where("_reject IS NULL AND leadership_term_id IS NOT NULL")
    announced = (F.col("event") == in_process.LEADERSHIP_TERM_EVENT) | F.col("message").isin(
        *in_process.LEADER_MESSAGES
    )
    leading = trace.where(F.col("role") == in_process.ROLE_LEADER).select(
        term, F.col("member").cast("long").alias("leader"), place.alias("source")
    )
    told = trace.where(announced & F.col("leader_member_id").isNotNull()).select(
        term, F.col("leader_member_id").alias("leader"), place.alias("source")
    )
    events = tables.frames.where("type = 'NewLeadershipTermEvent'").join(F.broadcast(tables.ends), "member")
    logged = events.where("end_position <= log_end").select(
        F.get_json_object("fields", "$.leadership_term_id").cast("long").alias("term"),
        F.get_json_object("fields", "$.leader_member_id").cast("long").alias("leader"),
        F.format_string("log of member %d at position %d", "member", "end_position").alias("source"),
    )
    by_term = (
        leading.union(told)
        .union(logged)
        .groupBy("term")
        .agg(
            F.min("leader").alias("one"),
            F.max("leader").alias("other"),
            F.min_by("source", "leader").alias("one_source"),
            F.max_by("source", "leader").alias("other_source"),
        )
    )
    both = F.format_string("leader %d (%s) and leader %d (%s)", "one", "one_source", "other", "other_source")
    text = F.when(F.col("one") != F.col("other"), both)
    return by_term.select(*_evidence("term", F.col("one"), text, F.col("term")))


def _difference(tables: _Tables, manifest: Manifest) -> DataFrame:
    """Frames grouped by position: every log that reaches it must hold the same one there."""
    finals = in_process.finals(manifest)
    limit = min((final.commit_position for final in finals), default=None)
    frames = tables.frames.where("kind IN ('frame', 'message', 'padding')").join(F.broadcast(tables.ends), "member")
    frames = frames.where("position < log_end")
    if limit is not None:
        frames = frames.where(F.col("position") < limit)
    operation = F.concat_ws(" ", F.concat(F.lit("operation id="), F.col("operation_id")), "f", "key", "value")
    shown = F.when(F.col("operation_id").isNotNull(), operation).otherwise(F.coalesce("type", "kind"))
    reached = tables.ends.agg(F.collect_list("log_end").alias("all_ends"))
    by_position = (
        frames.groupBy("position")
        .agg(
            F.count(F.lit(1)).alias("n"),
            F.min("digest").alias("low"),
            F.max("digest").alias("high"),
            F.min("member").alias("a"),
            F.max_by("member", "digest").alias("b"),
            F.min_by(shown, "digest").alias("one"),
            F.max_by(shown, "digest").alias("other"),
        )
        .crossJoin(F.broadcast(reached))
    )
    expected = F.size(F.filter("all_ends", lambda end: end > F.col("position")))
    differ = F.format_string("members differ at position %d: %s against %s", "position", "one", "other")
    absent = F.format_string("members differ at position %d: %s against no frame", "position", "one")
    violation = F.when(F.col("low") != F.col("high"), differ).when(F.col("n") < expected, absent)
    return _judged(by_position.withColumn("violation", violation), "difference", "position")


def _shown_operation() -> Any:
    return F.concat(
        *(F.lit(part) if isinstance(part, str) else F.coalesce(part, F.lit("null")) for part in _operation_parts())
    )


def _operation_parts() -> list[Any]:
    quoted = [F.concat(F.lit('"'), F.col(name), F.lit('"')) for name in ("f", "key")]
    parts: list[Any] = ["operation id=", F.col("id"), " f=", quoted[0], " key=", quoted[1]]
    return [*parts, " value=", F.col("value"), " result=", F.col("result")]


def _acknowledged(tables: _Tables) -> DataFrame:
    found = tables.entries.groupBy("id").agg(
        F.max_by(F.struct("f", "key", "value", "position"), "position").alias("entry")
    )
    judged = tables.operations.where("outcome = 'ok'").join(found, "id", "left")
    at = F.when(F.col("position").isNull(), "no position").otherwise(F.format_string("position %d", "position"))
    differs = (
        (F.col("entry.f") != F.col("f"))
        | (F.col("entry.key") != F.col("key"))
        | (F.col("entry.value") != F.col("value"))
    )
    other = F.format_string(
        " was acknowledged, the log has %s %s %s at position %d",
        "entry.f",
        "entry.key",
        "entry.value",
        "entry.position",
    )
    moved = F.format_string(" was reported at position %d and lies at position %d", "position", "entry.position")
    lost = F.concat(F.lit(" was acknowledged at "), at, F.lit(" and is not there"))
    why = (
        F.when(F.col("entry").isNull(), lost)
        .when(differs, other)
        .when(F.col("position") != F.col("entry.position"), moved)
    )
    return _judged(judged.withColumn("violation", F.concat(_shown_operation(), why)), "acknowledged", "line")


def _applied_once(tables: _Tables) -> DataFrame:
    never = tables.operations.where("outcome = 'fail'").select("id", F.lit(True).alias("never_sent"))
    grouped = tables.entries.groupBy("id").agg(
        F.sort_array(F.collect_list("position")).alias("at"),
        F.min_by("f", "position").alias("f"),
        F.min("key").alias("key"),
    )
    name = F.format_string("operation id=%d %s %s ", "id", "f", "key")
    again = F.format_string("lies at position %d and again at position %d", F.col("at")[0], F.get("at", F.lit(1)))
    yet = F.format_string("failed before it was sent and yet lies at position %d", F.col("at")[0])
    why = F.when(F.size("at") > 1, again).when(F.col("never_sent"), yet)
    judged = grouped.join(never, "id", "left").withColumn("violation", F.concat(name, why))
    return _judged(judged.withColumn("first", F.col("at")[0]), "applied once", "first")


def _in_log(tables: _Tables) -> DataFrame:
    """The entries in the log with what the history knows about each."""
    history = tables.operations.select(
        "id", "process", "invoke_ns", "complete_ns", "outcome", "result", F.col("value").alias("sent")
    )
    return tables.entries.join(history, "id", "left")


def _results(tables: _Tables) -> DataFrame:
    """Sorted by key and position, each key goes to one task; `judge_groups` sees one key after the other."""
    space = F.when(F.col("f").isin("append", "list"), "list").when(F.col("f") == "echo", "echo").otherwise("register")
    group = F.when(F.col("f") == "echo", (F.col("id") % ECHO_GROUPS).cast("string")).otherwise(F.col("key"))
    rows = _in_log(tables).withColumn("space", space).withColumn("group", group)
    ordered = rows.repartition("space", "group").sortWithinPartitions("space", "group", "position")
    return (
        ordered.mapInArrow(judge_groups, GROUP_RESULT)
        .agg(F.sum("judged").alias("number"), _first("position").alias("text"))
        .select(*_evidence("results", F.col("number"), F.col("text")))
    )


def _real_time(tables: _Tables) -> DataFrame:
    """No entry lies behind one that was invoked after it had completed: latest invocation, by range, then within."""
    rows = _in_log(tables).where("outcome IS NOT NULL")
    rows = rows.withColumn("range", F.floor(F.col("position") / POSITION_RANGE)).withColumn(
        "call", F.struct("invoke_ns", "id")
    )
    ranges = rows.groupBy("range").agg(F.max("call").alias("latest"))
    earlier = Window.orderBy("range").rowsBetween(Window.unboundedPreceding, -1)
    ranges = ranges.select("range", F.max("latest").over(earlier).alias("before_range"))
    within = Window.partitionBy("range").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    judged = rows.join(F.broadcast(ranges), "range").withColumn(
        "latest", F.greatest(F.max("call").over(within), F.col("before_range"))
    )
    too_late = (F.col("outcome") == "ok") & (F.col("complete_ns") < F.col("latest.invoke_ns"))
    text = F.format_string(
        "operation id=%d %s %s at position %d had completed before operation id=%d was invoked, "
        "which lies before it in the log",
        "id",
        "f",
        "key",
        "position",
        "latest.id",
    )
    return _judged(judged.withColumn("violation", F.when(too_late, text)), "real time", "position")


def _explained(tables: _Tables) -> DataFrame:
    known = tables.operations.select("id", F.lit(True).alias("known"))
    text = F.format_string("operation id=%d %s %s at position %d is not in the history", "id", "f", "key", "position")
    judged = tables.entries.join(known, "id", "left").withColumn("violation", F.when(F.col("known").isNull(), text))
    return _judged(judged, "explained", "position")
