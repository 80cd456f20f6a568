"""`upheaval measure --engine spark`: the figures of `upheaval.report`, aggregated by Spark for many runs at once.

Percentiles are exact and interpolated as there. Only aggregates come back: intervals, outages, faults, terms, and the
few events of each trace that change what a member is. The run is a part of every key.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession, functions as F
from pyspark.sql.window import Window

from upheaval.checkers.evidence.events import units_of_ms
from upheaval.checkers.evidence.protocol_events import DEADLY
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
    gaps_at_ends,
    kills_of,
    lateness,
    member_spans,
    snapshot_figures,
)
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.record import FaultRecord, Proof, shown
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import S
from upheaval_pipeline import run_tables
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.run_tables import RUNS_OF_A_JOB, RunTables

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
_Terms = list[tuple[int, int, int]]
Measured = Figures | UsageError
"""What came of a run: a malformed line of one keeps no other from being measured."""


@dataclass(frozen=True)
class _Extent:
    """The first and the last moment of a run, and when its load began."""

    start: int = 0
    end: int = 1
    begun: int = 0

    @property
    def length(self) -> int:
        """In nanoseconds."""
        return self.end - self.start


def measure(spark: SparkSession, folders: Sequence[Path]) -> Iterator[Measured]:
    """The figures of runs, in their order. Raises `UsageError` for what is no run folder."""
    for begin in range(0, len(folders), RUNS_OF_A_JOB):
        with run_tables.of_folders(spark, folders[begin : begin + RUNS_OF_A_JOB]) as tables:
            yield from figures_of(tables)


def measure_lake(spark: SparkSession, lake: Lake, runs: Sequence[str]) -> Iterator[Measured]:
    """The figures of runs of a lake, in their order. Raises `UsageError` when one is not there."""
    return run_tables.each_of_lake(spark, lake, runs, figures_of)


def figures_of(tables: RunTables) -> list[Measured]:
    """The figures of each run, whatever holds their tables."""
    unreadable = _unreadable(tables)
    places = range(len(tables.runs))
    extents = _extents(tables)
    spark = tables.history.sparkSession
    known = [(place, extents[place].start, extents[place].length, len(_edges(extents, place))) for place in places]
    runs = F.broadcast(spark.createDataFrame(known, "run int, start long, run_length long, edges int"))
    answered = tables.history.where("outcome = 'ok'").join(runs, "run")
    t, took = F.col("complete_ns") - F.col("start"), F.col("complete_ns") - F.col("invoke_ns")
    answered = answered.select("run", t.alias("t"), took.alias("latency"), "run_length", "edges").persist()
    try:
        totals = _by_run(
            answered.groupBy("run").agg(F.count(F.lit(1)), F.max("t"), F.expr(_P50), F.expr(_P99), F.max("latency"))
        )
        counts = _by_run(tables.history.groupBy("run", "outcome").count())
        terms = _terms(tables.trace, extents)
        member_events = _member_events(tables)
        filled, gaps = _by_run(_buckets(answered)), _by_run(_gaps(answered))
        ends = _by_run(_ends(tables.history))
        last = {place: totals[place][0][1] for place in places if totals[place]}
        faults = _faults(tables.faults.join(runs, "run"), answered, last, terms)
        late, deadly = _late_timers(tables), _deadly_faults(tables.faults)
    finally:
        answered.unpersist()

    def of(place: int) -> Figures:
        extent, load = extents[place], (extents[place].begun - extents[place].start, last.get(place, 0))
        count, _, *latency = totals[place][0] if totals[place] else (0, 0)
        by_outcome = dict(counts[place])
        edges = _edges(extents, place)
        of_bucket = {bucket: (n, p50, p99) for bucket, n, p50, p99 in filled[place]}
        return Figures(
            length_ns=extent.length,
            load=load,
            counts={outcome.value: by_outcome.get(outcome.value, 0) for outcome in Outcome},
            rate=count * S / max(load[1] - load[0], 1),
            latency=(latency[0], latency[1], latency[2]) if count else None,
            # An interval without an answer has no row.
            buckets=[Bucket(edges[i], edges[i + 1], *of_bucket.get(i, (0, None, None))) for i in range(len(edges) - 1)],
            gaps=sorted([*gaps[place], *_gaps_at_ends(ends[place], extent)]),
            members={
                m: member_spans(events, extent.start, extent.end, kills_of(m, deadly[place], events))
                for m, events in member_events[place].items()
            },
            terms=terms[place],
            faults=faults[place],
            catch_ups=catch_ups(member_events[place], extent.start),
            snapshots=snapshot_figures(tables.runs[place].controls, extent.start),
            timers=lateness(late[place]),
        )

    return [unreadable[place] if place in unreadable else of(place) for place in places]


def _by_run(frame: DataFrame) -> defaultdict[int, list[Any]]:
    """What a query gives, by the run of each row, without it."""
    rows_by_run: defaultdict[int, list[Any]] = defaultdict(list)
    for run, *row in frame.collect():
        rows_by_run[run].append(tuple(row))
    return rows_by_run


def _edges(extents: Sequence[_Extent], place: int) -> list[int]:
    return edges_of(extents[place].length)


def _late_timers(tables: RunTables) -> defaultdict[int, list[float]]:
    """Of each timer event in the longest log, the milliseconds after the deadline that its request gave."""
    of_timers = [place for place, run in enumerate(tables.runs) if run.manifest.service == TIMERS_SERVICE]
    if not of_timers:
        return defaultdict(list)
    recording = tables.recording.where(F.col("run").isin(of_timers))
    # Of equally long ones, the log that begins first has all requests.
    fitness = F.struct("log_end", (-F.col("start")).alias("start"), (-F.col("member")).alias("member"))
    longest = _member_ends(recording).groupBy("run").agg(F.max(fitness).alias("longest"))
    longest = longest.select("run", "longest.log_end", (-F.col("longest.member")).alias("member"))
    recorded = recording.join(F.broadcast(longest), ["run", "member"]).where("end_position <= log_end")

    def json_field(name: str) -> Any:
        return F.get_json_object("fields", f"$.{name}").try_cast("long")

    terms = recorded.where("type = 'NewLeadershipTermEvent'").groupBy("run")
    units = {
        run: unit for run, ((unit,),) in _by_run(terms.agg(F.max_by(json_field("time_unit"), "end_position"))).items()
    }
    asked = recorded.where(F.col("f") == Function.SCHEDULE.value).select(
        "run",
        F.col("operation_id").alias("timer"),
        (json_field("timestamp") + F.col("value").try_cast("long")).alias("deadline"),
    )
    fired = recorded.where("type = 'TimerEvent'").select(
        "run", json_field("correlation_id").alias("timer"), json_field("timestamp").alias("time")
    )
    late = _by_run(fired.join(asked, ["run", "timer"]).select("run", F.col("time") - F.col("deadline")))
    late_ms: defaultdict[int, list[float]] = defaultdict(list)
    for run, rows in late.items():
        code = max(units.get(run) or 0, 0)
        unit = units_of_ms(code)
        late_ms[run] = [row / unit for (row,) in rows]
    return late_ms


def _member_ends(recording: DataFrame) -> DataFrame:
    """Where each member's log begins, and how far it can be read: its pieces, as long as each one begins where the one
    before it ends.
    """
    order = Window.partitionBy("run", "member").orderBy("from_position", "to_position")
    follows = F.lag("end_position").over(order) == F.col("from_position")
    extents = recording.where("kind = 'extent'").withColumn(
        "gap", F.when(F.coalesce(follows, F.lit(True)), 0).otherwise(1)
    )
    gaps = F.sum("gap").over(order.rowsBetween(Window.unboundedPreceding, 0))
    whole = extents.withColumn("gaps", gaps).where("gaps = 0")
    ends = F.max("end_position").alias("log_end"), F.min("start_position").alias("start")
    return whole.groupBy("run", "member").agg(*ends)


def _unreadable(tables: RunTables) -> dict[int, UsageError]:
    first = tables.bad.groupBy("run", "source").agg(F.min(F.struct("member", "line", "reason")).alias("first"))
    reasons = {(run, source): reason for run, source, reason in first.select("run", "source", "first.reason").collect()}
    malformed = {place: UsageError(run.malformed) for place, run in enumerate(tables.runs) if run.malformed}
    return malformed | {
        run: UsageError(reasons[run, source])
        for source in ("trace", "faults", "history")  # the last one counts
        for run in range(len(tables.runs))
        if (run, source) in reasons
    }


def _extents(tables: RunTables) -> list[_Extent]:
    first_and_last = (
        (tables.history, "invoke_ns", ("invoke_ns", "complete_ns")),
        (tables.faults, "inject_begin_ns", ("inject_begin_ns", "heal_end_ns")),
        # A process that ends before its loop has run once has read no clock.
        (tables.trace.where("ts > 0"), "ts", ("ts",)),
    )
    parts = [
        rows.groupBy("run")
        .agg(F.min(first).alias("first"), F.greatest(*map(F.max, (first, *last))).alias("last"))
        .select("run", F.lit(number).alias("source"), "first", "last")
        for number, (rows, first, last) in enumerate(first_and_last)
    ]
    extents = _by_run(parts[0].union(parts[1]).union(parts[2]))
    return [_extent({source: (first, last) for source, first, last in extents[run]}) for run in range(len(tables.runs))]


def _extent(of_sources: dict[int, tuple[int | None, int | None]]) -> _Extent:
    moments = [moment for both in of_sources.values() for moment in both if moment is not None]
    if not moments:
        return _Extent()
    start, (begun, _) = min(moments), of_sources.get(0, (None, None))
    return _Extent(start, max(max(moments), start + 1), start if begun is None else begun)


def _buckets(answered: DataFrame) -> DataFrame:
    index = F.expr("least(((t + 1) * (edges - 1) - 1) div run_length, edges - 2)").alias("bucket")
    return answered.groupBy("run", index).agg(F.count(F.lit(1)).alias("n"), F.expr(_P50), F.expr(_P99))


def _gaps(answered: DataFrame) -> DataFrame:
    before = F.lag("t").over(Window.partitionBy("run").orderBy("t")).alias("before")
    return answered.select("run", before, "t").where(F.col("t") - F.col("before") > GAP_NS)


def _ends(history: DataFrame) -> DataFrame:
    """By run when the first request was made, the first and last answer, and when the last other request was made."""
    is_answered = F.col("outcome") == Outcome.OK.value
    answer = F.when(is_answered, F.col("complete_ns"))
    other = F.when(~is_answered, F.col("invoke_ns"))
    return history.groupBy("run").agg(F.min("invoke_ns"), F.min(answer), F.max(answer), F.max(other))


def _gaps_at_ends(ends: Sequence[tuple[int | None, ...]], extent: _Extent) -> list[tuple[int, int]]:
    moments = ends[0] if ends else (None,) * 4
    asked, first, last, other = (None if moment is None else moment - extent.start for moment in moments)
    return gaps_at_ends(asked, None if first is None or last is None else (first, last), other, extent.length)


def _terms(trace: DataFrame, extents: Sequence[_Extent]) -> defaultdict[int, _Terms]:
    entered = trace.where(
        (F.col("event") == TraceKind.LEADERSHIP_TERM)
        & F.col("leadership_term_id").isNotNull()
        & F.col("leader_member_id").isNotNull()
    )
    first = entered.groupBy("run", "leadership_term_id").agg(F.min(F.struct("ts", "leader_member_id")).alias("first"))
    terms: defaultdict[int, _Terms] = defaultdict(list)
    for run, rows in _by_run(first.select("run", "first.ts", "leadership_term_id", "first.leader_member_id")).items():
        terms[run] = sorted((ts - extents[run].start, term, leader) for ts, term, leader in rows)
    return terms


def _member_events(tables: RunTables) -> list[dict[int, list[TraceEvent]]]:
    """The events that change what a member is. The last one before a new process, or at all, says when it ended."""
    following = F.lead("event").over(Window.partitionBy("run", "member").orderBy("line"))
    selected = (
        tables.trace.withColumn("following", following)
        .where(
            F.col("event").isin(*_STATE_EVENTS)
            | (F.coalesce("following", F.lit(TraceKind.PROCESS_START)) == TraceKind.PROCESS_START)
        )
        .select("run", "member", "line", "ts", "event", "fields")
    )
    events: list[dict[int, list[TraceEvent]]] = [
        {member: [] for member in range(run.manifest.members)} for run in tables.runs
    ]
    for run, rows in _by_run(selected).items():
        for member, line, ts, event, fields in sorted(rows):
            events[run][member].append(TraceEvent(line, ts, event, json.loads(fields)))
    return events


def _deadly_faults(faults: DataFrame) -> defaultdict[int, list[FaultRecord]]:
    """Those that may have ended a process, as far as `kills_of` reads them."""
    times = ("inject_begin_ns", "inject_end_ns", "heal_begin_ns", "heal_end_ns")
    columns = ("run", "what", "where", *times, "inject_proof", "heal_proof", "members", "component")
    wanted = F.col("what").isin(*DEADLY, HostFaultKind.MEMORY_LIMIT)
    records: defaultdict[int, list[FaultRecord]] = defaultdict(list)
    for run, what, where, begin_ns, end_ns, heal_begin_ns, heal_end_ns, injected, healed, members, component in (
        faults.where(wanted).select(*columns).collect()
    ):
        records[run].append(
            FaultRecord(
                what,
                where,
                begin_ns,
                end_ns,
                heal_begin_ns,
                heal_end_ns,
                None if injected is None else Proof(*injected),
                None if healed is None else Proof(*healed),
                tuple(members or ()),
                component,
            )
        )
    return records


def _faults(
    faults: DataFrame, answered: DataFrame, last: dict[int, int], terms: defaultdict[int, _Terms]
) -> defaultdict[int, list[FaultFigures]]:
    """What was answered before, during and after each fault, and the first answer of a new leader."""
    begin, end = F.col("inject_begin_ns") - F.col("start"), F.col("heal_end_ns") - F.col("start")
    columns = ("run", "line", "what", "where", "inject_proof", "heal_proof", begin.alias("begin"), end.alias("end"))
    rows = sorted(faults.select(*columns).collect(), key=lambda row: (row.run, row.line))
    figures_by_run: defaultdict[int, list[FaultFigures]] = defaultdict(list)
    if not rows:
        return figures_by_run
    spark = answered.sparkSession
    until = {(row.run, row.line): _until(row, last.get(row.run)) for row in rows}
    times = [(row.run, row.line, row.begin, row.end, until[row.run, row.line]) for row in rows]
    ranges = F.broadcast(spark.createDataFrame(times, "run int, line long, begin long, end long, until long"))
    t = F.col("t")
    phase = (
        F.when((t >= F.col("begin") - AROUND_NS) & (t < F.col("begin")), "before"),
        F.when((t >= F.col("begin")) & (t < F.col("until")), "during"),
        F.when((t >= F.col("end")) & (t < F.col("end") + AROUND_NS), "after"),
    )
    joined = answered.join(ranges, "run").withColumn("phase", F.coalesce(*phase)).where("phase IS NOT NULL")
    around = joined.groupBy("run", "line", "phase").agg(F.expr(_P50), F.expr(_P99))
    latencies: dict[tuple[int, int, str], _Pair] = {
        (r, line, p): (p50, p99) for r, line, p, p50, p99 in around.collect()
    }
    newer = {
        (row.run, row.line): moment
        for row in rows
        if (moment := _newer(row.begin, until[row.run, row.line], terms[row.run])) is not None
    }
    answers = _first_answers(answered, newer)
    for row in rows:
        of = (row.run, row.line)
        before, during, after = (latencies.get((*of, phase)) for phase in ("before", "during", "after"))
        proofs = shown(*(None if proof is None else Proof(*proof) for proof in (row.inject_proof, row.heal_proof)))
        led, answer = (None if moments.get(of) is None else moments[of] - row.begin for moments in (newer, answers))
        figures = FaultFigures(row.what, row.where, row.begin, row.end, proofs, before, during, after, led, answer)
        figures_by_run[row.run].append(figures)
    return figures_by_run


def _until(row: Any, last: int | None) -> int:
    if row.end is not None:
        return int(row.end)
    return int(row.begin) if last is None else last + 1


def _newer(begin: int, until: int, terms: _Terms) -> int | None:
    """When the first leader after a fault was there."""
    return next((moment for moment, _, _ in terms if begin < moment <= max(until, begin)), None)


def _first_answers(answered: DataFrame, moments: dict[tuple[int, int], int]) -> dict[tuple[int, int], int]:
    """The first answer after each moment, by its run and fault."""
    if not moments:
        return {}
    rows = [(run, line, moment) for (run, line), moment in moments.items()]
    after = F.broadcast(answered.sparkSession.createDataFrame(rows, "run int, line long, moment long"))
    first = answered.join(after, "run").where("t > moment").groupBy("run", "line").agg(F.min("t").alias("t"))
    return {(run, line): t for run, line, t in first.collect()}
