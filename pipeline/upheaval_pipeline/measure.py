"""`upheaval measure --engine spark`: the figures of `upheaval_pipeline.figures`, aggregated by Spark.

Percentiles are exact and interpolated as there. Only aggregates come back: intervals, outages, faults, terms, and the
few events of each trace that change what a member is.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.window import Window

from upheaval.checkers.events import MS_OF_UNIT
from upheaval.errors import UsageError
from upheaval.records import Function, Outcome, TraceEvent
from upheaval.report import (
    AROUND_NS,
    GAP_NS,
    TIMERS_SERVICE,
    Bucket,
    FaultFigures,
    Figures,
    catch_ups,
    edges_of,
    lateness,
    member_spans,
    snapshot_figures,
)
from upheaval_chaos.record import Proof, shown
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S
from upheaval_pipeline import run_tables
from upheaval_pipeline.judged_logs import member_ends
from upheaval_pipeline.run_tables import RunTables

_STATE_EVENTS = (
    TraceKind.PROCESS_START,
    TraceKind.PROCESS_END,
    TraceKind.ELECTION_STATE,
    TraceKind.ROLE,
    TraceKind.LEADERSHIP_TERM,
)
_P50 = "percentile(latency, 0.5)"
_P99 = "percentile(latency, 0.99)"

_Pair = tuple[float, float] | None


def measure(spark: SparkSession, folder: Path, buckets: int = 120) -> Figures:
    """The figures of one run. Raises `UsageError` for a folder that is no run folder or holds a malformed line."""
    with run_tables.of_folders(spark, [folder]) as tables:
        return figures_of(tables, buckets)


def measure_lake(spark: SparkSession, lake: str, run: str, buckets: int = 120) -> Figures:
    """The figures of one run of a lake. Raises `UsageError` when it is not there, or had malformed lines."""
    with run_tables.of_lake(spark, lake, [run]) as tables:
        return figures_of(tables, buckets)


def figures_of(tables: RunTables, buckets: int = 120) -> Figures:
    """The figures of a single run, wherever its tables lie."""
    _require_readable(tables)
    (run,) = tables.runs
    members = run.manifest.members
    start, end, begun = _extent(tables.history, tables.faults, tables.trace)
    answered = tables.history.where("outcome = 'ok'").select(
        (F.col("complete_ns") - start).alias("t"), (F.col("complete_ns") - F.col("invoke_ns")).alias("latency")
    )
    answered = answered.persist()
    total = answered.agg(
        F.count(F.lit(1)).alias("n"), F.max("t").alias("t"), F.expr(_P50), F.expr(_P99), F.max("latency")
    ).first()
    assert total is not None
    count, last, p50, p99, longest = total
    counts = {row.outcome: row["count"] for row in tables.history.groupBy("outcome").count().collect()}
    terms = _terms(tables.trace, start)
    load = (begun - start, last or 0)
    telling = _telling_events(tables.trace, members)
    found = Figures(
        length_ns=end - start,
        load=load,
        counts={outcome.value: counts.get(outcome.value, 0) for outcome in Outcome},
        rate=count * S / max(load[1] - load[0], 1),
        latency=(p50, p99, longest) if count else None,
        buckets=_buckets(answered, end - start, buckets),
        gaps=_gaps(answered),
        members={member: member_spans(events, start, end) for member, events in telling.items()},
        terms=terms,
        faults=_faults(tables.faults, answered, start, last, terms),
        catch_ups=catch_ups(telling, start),
        snapshots=snapshot_figures(run.aside.controls, start),
        timers=lateness(_late_timers(tables)),
    )
    answered.unpersist()
    return found


def _late_timers(tables: RunTables) -> list[float]:
    """Of each timer event in the longest log, the milliseconds after the deadline that its request gave."""
    (run,) = tables.runs
    if run.manifest.service != TIMERS_SERVICE:
        return []
    longest = member_ends(tables.recording).orderBy(F.desc("log_end"), "member").limit(1).select("member", "log_end")
    recorded = tables.recording.join(F.broadcast(longest), "member").where("end_position <= log_end")

    def said(name: str) -> Any:
        return F.get_json_object("fields", f"$.{name}").cast("long")

    terms = recorded.where("type = 'NewLeadershipTermEvent'").agg(F.max_by(said("time_unit"), "end_position")).first()
    code = 0 if terms is None or terms[0] is None else max(terms[0], 0)
    unit = MS_OF_UNIT[code] if code < len(MS_OF_UNIT) else 1
    asked = recorded.where(F.col("f") == Function.SCHEDULE.value).select(
        F.col("operation_id").alias("timer"), (said("timestamp") + F.col("value").cast("long")).alias("deadline")
    )
    fired = recorded.where("type = 'TimerEvent'").select(
        said("correlation_id").alias("timer"), said("timestamp").alias("time")
    )
    late = fired.join(asked, "timer").select((F.col("time") - F.col("deadline")).alias("late"))
    return [row.late / unit for row in late.collect()]


def _require_readable(tables: RunTables) -> None:
    rows = tables.bad.groupBy("source").agg(F.min(F.struct("member", "line", "reason")).alias("first")).collect()
    first = {row.source: row["first"].reason for row in rows}
    for source in ("history", "faults", "trace"):
        if source in first:
            raise UsageError(first[source])


def _extent(history: DataFrame, faults: DataFrame, trace: DataFrame) -> tuple[int, int, int]:
    """The first and the last moment of the run, and when the load began."""
    calls = history.agg(F.min("invoke_ns"), F.max("invoke_ns"), F.max("complete_ns")).first()
    injected = faults.agg(F.min("inject_begin_ns"), F.max("inject_begin_ns"), F.max("heal_end_ns")).first()
    traced = trace.agg(F.min("ts"), F.max("ts")).first()
    assert calls is not None
    assert injected is not None
    assert traced is not None
    moments = [moment for moment in (*calls, *injected, *traced) if moment is not None]
    if not moments:
        return 0, 1, 0
    start = min(moments)
    return start, max(max(moments), start + 1), start if calls[0] is None else calls[0]


def _buckets(answered: DataFrame, length: int, count: int) -> list[Bucket]:
    edges = edges_of(length, count)
    index = F.expr(f"least(((t + 1) * {len(edges) - 1} - 1) div {length}, {len(edges) - 2})").alias("bucket")
    rows = answered.groupBy(index).agg(F.count(F.lit(1)).alias("n"), F.expr(_P50), F.expr(_P99)).collect()
    found = {bucket: (n, p50, p99) for bucket, n, p50, p99 in rows}
    return [
        Bucket(edges[i], edges[i + 1], *found.get(i, (0, None, None)))  # an interval without an answer has no row
        for i in range(len(edges) - 1)
    ]


def _gaps(answered: DataFrame) -> list[tuple[int, int]]:
    before = F.lag("t").over(Window.orderBy("t")).alias("before")
    rows = answered.select(before, "t").where(F.col("t") - F.col("before") > GAP_NS).orderBy("t").collect()
    return [(row.before, row.t) for row in rows]


def _terms(trace: DataFrame, start: int) -> list[tuple[int, int, int]]:
    entered = trace.where(
        (F.col("event") == TraceKind.LEADERSHIP_TERM)
        & F.col("leadership_term_id").isNotNull()
        & F.col("leader_member_id").isNotNull()
    )
    first = entered.groupBy("leadership_term_id").agg(F.min(F.struct("ts", "leader_member_id")).alias("first"))
    rows = first.collect()
    return sorted((row.first.ts - start, row.leadership_term_id, row.first.leader_member_id) for row in rows)


def _telling_events(trace: DataFrame, members: int) -> dict[int, list[TraceEvent]]:
    """The events that change what a member is. The last one before a new process, or at all, says when it ended."""
    following = F.lead("event").over(Window.partitionBy("member").orderBy("line"))
    telling = (
        trace.withColumn("following", following)
        .where(
            F.col("event").isin(*_STATE_EVENTS)
            | (F.coalesce("following", F.lit(TraceKind.PROCESS_START)) == TraceKind.PROCESS_START)
        )
        .select("member", "line", "ts", "event", "fields")
        .orderBy("member", "line")
    )
    events: dict[int, list[TraceEvent]] = {member: [] for member in range(members)}
    for row in telling.collect():
        events[row.member].append(TraceEvent(row.line, row.ts, row.event, json.loads(row.fields)))
    return events


def _faults(
    faults: DataFrame, answered: DataFrame, start: int, last: int | None, terms: list[tuple[int, int, int]]
) -> list[FaultFigures]:
    """What was answered before, during and after each fault, as one range join."""
    times = faults.select(
        "line",
        "what",
        "where",
        "inject_proof",
        "heal_proof",
        (F.col("inject_begin_ns") - start).alias("begin"),
        (F.col("heal_end_ns") - start).alias("end"),
    )
    until = F.coalesce(F.col("end"), F.lit(None if last is None else last + 1).cast("long"), F.col("begin"))
    times = times.withColumn("until", until)
    t = F.col("t")
    phase = (
        F.when((t >= F.col("begin") - AROUND_NS) & (t < F.col("begin")), "before"),
        F.when((t >= F.col("begin")) & (t < F.col("until")), "during"),
        F.when((t >= F.col("end")) & (t < F.col("end") + AROUND_NS), "after"),
    )
    joined = answered.crossJoin(F.broadcast(times)).withColumn("phase", F.coalesce(*phase))
    rows = joined.where("phase IS NOT NULL").groupBy("line", "phase").agg(F.expr(_P50), F.expr(_P99)).collect()
    latencies: dict[tuple[int, str], _Pair] = {(line, phase): (p50, p99) for line, phase, p50, p99 in rows}
    return [_fault(row, answered, terms, latencies) for row in times.orderBy("line").collect()]


def _fault(
    row: Any, answered: DataFrame, terms: list[tuple[int, int, int]], latencies: dict[tuple[int, str], _Pair]
) -> FaultFigures:
    newer = next((moment for moment, _, _ in terms if row.begin < moment <= max(row.until, row.begin)), None)
    answer = None
    if newer is not None:
        first = answered.where(F.col("t") > newer).agg(F.min("t")).first()
        assert first is not None
        answer = None if first[0] is None else first[0] - row.begin
    return FaultFigures(
        row.what,
        row.where,
        row.begin,
        row.end,
        shown(*(None if proof is None else Proof(*proof) for proof in (row.inject_proof, row.heal_proof))),
        latencies.get((row.line, "before")),
        latencies.get((row.line, "during")),
        latencies.get((row.line, "after")),
        None if newer is None else newer - row.begin,
        answer,
    )
