"""What Spark finds out about sessions, timers, messages of services, and the requests to ledger and timers of runs.

Sessions are summed up, a row each. The rest is judged in log order over all keys at once, as one state machine: these
rows come to this process as they are (there are none of them in a run of other services) and are shown to the functions
that judge them in-process.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.window import Window

from upheaval.checkers.evidence.events import LogEvents, ServiceMessage, SessionFacts, TermTimes, TimerFired, asks_members
from upheaval.checkers.evidence.logs import TIMED_EVENTS
from upheaval.checkers.history.witness import LogEntry
from upheaval.records import LEDGER, TIMERS, Credit, Function, Operation, Outcome
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.evidence import Evidence, evidence, first_of
from upheaval_pipeline.judged_history import Witness
from upheaval_pipeline.reach import Reach
from upheaval_pipeline.run_tables import RunTables
from upheaval_pipeline.tables import POSITION_RANGE

SERVICE_MESSAGE = "ServiceMessage"
_OWN = tuple(function.value for function in (*LEDGER, *TIMERS))
_SENT = ("f", "key", "value", "result", "position", "invoke_ns", "complete_ns")
_TOLD = ("f", "key", "value", "outcome", "result", "position")
_TIMED = ("SessionMessage", SERVICE_MESSAGE, *(event.__name__ for event in TIMED_EVENTS))
CLUSTER_ACTION = "ClusterActionRequest"
_EVENTS = ("TimerEvent", SERVICE_MESSAGE, "NewLeadershipTermEvent", CLUSTER_ACTION)


def sessions(witness: Witness) -> DataFrame:
    """Where each session opened and closed, and the ends of its first and last message."""
    kinds = ("SessionOpenEvent", "SessionCloseEvent", "SessionMessage")
    session = F.get_json_object("fields", "$.cluster_session_id").cast("long")
    reason = F.get_json_object("fields", "$.close_reason").cast("long")
    rows = witness.recorded.where(F.col("type").isin(*kinds)).withColumn("session", session)
    place = F.col("end_position")
    term, time = (F.get_json_object("fields", f"$.{name}").cast("long") for name in ("leadership_term_id", "timestamp"))
    is_open, is_message = F.col("type") == "SessionOpenEvent", F.col("type") == "SessionMessage"
    is_close = F.col("type") == "SessionCloseEvent"
    moment = F.struct(place.alias("at"), term.alias("term"), time.alias("time"))
    closed = F.when(is_close, F.array(place, reason))
    found = rows.groupBy("run", "session").agg(
        F.sort_array(F.collect_list(F.when(is_open, place))).alias("opened"),
        F.sort_array(F.collect_list(closed)).alias("closed"),
        F.min(F.when(is_message, place)).alias("first"),
        F.max(F.when(is_message, place)).alias("last"),
        F.min(F.when(is_open, moment)).alias("open"),
        F.min(F.when(is_close, moment)).alias("ended"),
        F.max(F.when(is_message, moment)).alias("said"),
    )
    told = F.to_json(F.struct("opened", "closed", "first", "last", "open", "ended", "said"))
    return found.select(*evidence("session", None, told, F.col("session")))


def terms(witness: Witness) -> DataFrame:
    """How many entries have a term, and the first one that is of another than its place."""
    of_term = F.get_json_object("fields", "$.leadership_term_id").cast("long")
    rows = witness.recorded.where(F.col("type").isin(*_TIMED)).select(
        "run", "type", "end_position", of_term.alias("term")
    )
    begins = F.col("type") == "NewLeadershipTermEvent"
    known = rows.where(begins).groupBy("run").agg(F.collect_list(F.struct("end_position", "term")).alias("terms"))
    before = F.array_max(F.filter("terms", lambda each: each["end_position"] < F.col("end_position")))
    placed = rows.join(F.broadcast(known), "run", "left").withColumn("due", before["term"])
    later = F.coalesce(F.col("term") > F.col("due"), F.lit(True))
    is_right = F.when(begins, later).otherwise(F.col("term").eqNullSafe(F.col("due")))
    first = first_of(~is_right, F.col("end_position"), F.struct("type", "end_position", "term", "due").alias("stray"))
    found = placed.groupBy("run").agg(F.count(F.lit(1)).alias("n"), first.alias("first"))
    return found.select(*evidence("terms", F.col("n"), F.col("first")))


def clients(tables: RunTables, witness: Witness) -> DataFrame:
    """What `checkers.clients` wants to know of the operations of shipped services, a row for each kind."""
    placed = witness.joined.where("position IS NOT NULL AND sent_session IS NOT NULL")
    shown = ("id", "session", "sent_session", "position", *(f"sent_{name}" for name in _TOLD))
    elsewhere = (
        placed.groupBy("run")
        .agg(
            F.count(F.lit(1)).alias("n"),
            first_of(F.col("session") != F.col("sent_session"), F.col("position"), *shown).alias("first"),
        )
        .select(*evidence("elsewhere", F.col("n"), F.col("first")))
    )
    before = F.lag(F.struct("id", "sent_invoke_ns")).over(Window.partitionBy("run", "sent_session").orderBy("position"))
    ordered = placed.withColumn("before", before).where("sent_invoke_ns < before.sent_invoke_ns")
    late = first_of(F.lit(True), F.col("position"), F.col("before.id").alias("later"), *shown)
    overtaken = ordered.groupBy("run").agg(late.alias("first"))
    skipped = _skipped(witness)
    shipped = tables.history.where(F.col("f") != Function.CALL.value)
    told = F.struct("id", "outcome", "complete_ns")
    before = F.lag(told).over(Window.partitionBy("run", "process").orderBy("invoke_ns", "line"))
    free_ns = F.col("before.complete_ns")
    is_outstanding = (F.col("before.outcome") != "fail") & (free_ns.isNull() | (F.col("invoke_ns") < free_ns))
    sent = (F.col(name).alias(f"sent_{name}") for name in _TOLD)
    both = first_of(is_outstanding, F.col("line"), "id", "process", F.col("before.id").alias("earlier"), *sent)
    again = shipped.withColumn("before", before).groupBy("run")
    again = again.agg(F.count_distinct("process").alias("n"), both.alias("first"))
    return (
        again.select(*evidence("again", F.col("n"), F.col("first")))
        .union(elsewhere)
        .union(overtaken.select(*evidence("overtaken", None, F.col("first"))))
        .union(skipped.select(*evidence("skipped", None, F.col("first"))))
    )


def _skipped(witness: Witness) -> DataFrame:
    """The first operation that is not in the log, between two entries of its session and of one term."""
    sent = witness.joined.where("sent_session IS NOT NULL")
    entry = F.struct("sent_invoke_ns", "term", F.col("position").alias("at"))
    placed = F.when(F.col("position").isNotNull(), entry)
    session = Window.partitionBy("run", "sent_session").orderBy("sent_invoke_ns", "sent_line")
    before = F.max(placed).over(session.rowsBetween(Window.unboundedPreceding, -1))
    after = F.min(placed).over(session.rowsBetween(1, Window.unboundedFollowing))
    around = sent.withColumn("before", before).withColumn("after", after)
    asked = F.col("sent_invoke_ns")
    is_between = (F.col("before.sent_invoke_ns") < asked) & (asked < F.col("after.sent_invoke_ns"))
    is_missing = F.col("position").isNull() & (F.col("sent_outcome") != "fail")
    gaps = around.where(is_missing & is_between & (F.col("before.term") == F.col("after.term")))
    place = F.struct("after.at", "sent_invoke_ns")
    shown = ("id", "sent_session", *(f"sent_{name}" for name in _TOLD), "before", "after")
    return gaps.groupBy("run").agg(first_of(F.lit(True), place, *shown).alias("first"))


def events(witness: Witness) -> DataFrame:
    """Timer events, messages of services, terms and actions of the cluster, as they are."""
    rows = witness.recorded.where(F.col("type").isin(*_EVENTS))
    told = F.to_json(F.struct("type", "fields"))
    return rows.select(*evidence("event", F.col("end_position"), told, F.col("end_position")))


def times(witness: Witness) -> DataFrame:
    """Of each term the earliest and the latest time of an entry, and the longest step back.

    The latest time before an entry is that of the ranges before its own, and of the entries before it in there.
    """
    term = ("run", "leadership_term_id")
    parsed = F.from_json("fields", "leadership_term_id LONG, timestamp LONG")
    rows = (
        witness.recorded.where(F.col("type").isin(*_TIMED))
        .select("run", F.col("end_position").alias("position"), parsed.alias("told"))
        .select("run", "position", "told.leadership_term_id", "told.timestamp")
        .withColumn("range", F.floor(F.col("position") / POSITION_RANGE))
    )
    ranges = rows.groupBy(*term, "range").agg(F.max("timestamp").alias("latest"))
    earlier = Window.partitionBy(*term).orderBy("range").rowsBetween(Window.unboundedPreceding, -1)
    ranges = ranges.select(*term, "range", F.max("latest").over(earlier).alias("before_range"))
    within = Window.partitionBy(*term, "range").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    before = F.greatest(F.max("timestamp").over(within), F.col("before_range"))
    stepped = rows.join(F.broadcast(ranges), [*term, "range"]).withColumn(
        "back", F.greatest(before - F.col("timestamp"), F.lit(0))
    )
    # Of equal ones the first.
    place = (-F.col("position")).alias("place")
    found = stepped.groupBy(*term).agg(
        F.min(F.struct("timestamp", "position")).alias("earliest"),
        F.max(F.struct("timestamp", place)).alias("latest"),
        F.max(F.when(F.col("back") > 0, F.struct("back", place))).alias("step_back"),
    )
    return found.select(
        *evidence(
            "term times", None, F.to_json(F.struct("earliest", "latest", "step_back")), F.col("leadership_term_id")
        )
    )


def own_requests(tables: RunTables, witness: Witness) -> DataFrame:
    """Requests to ledger and timers with what was answered."""
    entries = witness.recorded.where(F.col("f").isin(*_OWN)).select(
        "run", F.col("operation_id").alias("id"), "f", "key", "value", "end_position", "fields"
    )
    answered = tables.history.where("outcome = 'ok'").select(
        "run",
        "id",
        *(F.col(name).alias(f"sent_{name}") for name in _SENT),
    )
    joined = entries.join(answered, ["run", "id"], "left")
    timestamp = F.get_json_object("fields", "$.timestamp").cast("long").alias("timestamp")
    sent = [F.col(f"sent_{name}") for name in _SENT]
    told = F.to_json(F.struct("id", "f", "key", "value", timestamp, *sent))
    return joined.select(*evidence("own request", F.col("end_position"), told, F.col("end_position")))


def slow_answers(tables: RunTables, reach: Reach) -> DataFrame:
    """Operations of shipped services that took longer than any answer may."""
    shipped = tables.history.where(F.col("f") != Function.CALL.value).where("outcome = 'ok'")
    bounded = shipped.join(F.broadcast(reach.runs.select("run", "answer_ns")), "run")
    late = bounded.where("complete_ns - invoke_ns > answer_ns")
    told = F.to_json(F.struct("id", *(F.col(name).alias(f"sent_{name}") for name in (*_TOLD, *_SENT[-2:]))))
    return late.select(*evidence("slow answer", F.col("line"), told, F.col("line")))


def longest_stalls(tables: RunTables) -> DataFrame:
    """The longest stall that a member of each run traced, and its line; of equally long ones the first."""
    duration = F.floor(F.get_json_object("fields", "$.stall_ns").cast("long") / 1_000_000)
    traced = tables.trace.where(F.col("event") == TraceKind.LOOP_STALL).withColumn("duration", duration)
    order = F.struct(F.col("duration").alias("duration"), -F.col("member"), -F.col("line"))
    place = F.format_string("member-%d/trace.jsonl:%d", "member", "line")
    longest = (
        traced.dropna(subset=["duration"])
        .groupBy("run")
        .agg(F.max_by(F.struct("duration", place.alias("place")), order).alias("s"))
    )
    return longest.select(*evidence("stall", F.col("s.duration"), F.col("s.place")))


def events_of(sessions: Sequence[Evidence], events: Sequence[Evidence], times: Sequence[Evidence]) -> LogEvents:
    """What the rows of the first three tell, in log order."""
    found = LogEvents()
    for row in sessions:
        told = json.loads(str(row.text))
        facts = SessionFacts(row.key or 0, told["opened"], [(place, reason) for place, reason in told["closed"]])
        facts.first_message, facts.last_message = told.get("first", -1), told.get("last", -1)
        facts.open_term = None if "open" not in told else told["open"]["term"]
        facts.ended, facts.last = (
            (told[name]["term"], told[name]["time"]) if name in told else None for name in ("ended", "said")
        )
        found.sessions[facts.session_id] = facts
    for row in events:
        told = json.loads(str(row.text))
        _add(found, told["type"], json.loads(told["fields"]), row.number or 0)
    for row in times:
        told = json.loads(str(row.text))
        earliest, latest, back = told["earliest"], told["latest"], told.get("step_back")
        found.times[row.key or 0] = TermTimes(
            (earliest["timestamp"], earliest["position"]),
            (latest["timestamp"], -latest["place"]),
            (0, -1) if back is None else (back["back"], -back["place"]),
        )
    return found


def _add(found: LogEvents, kind: str, fields: Mapping[str, Any], position: int) -> None:
    if kind == "TimerEvent":
        found.timers.append(TimerFired(position, fields["correlation_id"], fields["timestamp"]))
    elif kind == SERVICE_MESSAGE:
        credit = fields["credit"]
        message = ServiceMessage(
            position, fields["cluster_session_id"], fields["timestamp"], None if credit is None else Credit(*credit)
        )
        found.service_messages.append(message)
    elif kind == CLUSTER_ACTION:
        if asks_members(fields["action"], fields["flags"]):
            found.snapshots.append(position)
    else:
        found.time_unit = max(int(fields["time_unit"]), 0)


def requests_of(rows: Sequence[Evidence]) -> tuple[dict[int, Operation], list[LogEntry]]:
    """The answered operations by their id, and the entries in log order."""
    operations: dict[int, Operation] = {}
    entries = []
    for row in rows:
        told = json.loads(str(row.text))
        value = json.loads(told["value"])
        entry = LogEntry(row.number or 0, told["id"], Function(told["f"]), told["key"], value, told["timestamp"])
        entries.append(entry)
        if "sent_f" in told:
            operations[entry.id] = operation_of(told)
    return operations, entries


def operation_of(told: Mapping[str, Any]) -> Operation:
    """An operation as it was sent. Times that are not told are 0: nobody shows them."""
    outcome = Outcome(told.get("sent_outcome", Outcome.OK))
    answered = outcome is Outcome.OK
    return Operation(
        id=told["id"],
        process=0,
        f=Function(told["sent_f"]),
        key=told["sent_key"],
        value=json.loads(told["sent_value"]),
        invoke_ns=told.get("sent_invoke_ns", 0),
        complete_ns=told.get("sent_complete_ns", 0) if answered else None,
        outcome=outcome,
        result=json.loads(told["sent_result"]) if answered else None,
        position=told.get("sent_position"),
    )
