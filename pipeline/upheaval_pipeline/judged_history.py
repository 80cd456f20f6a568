"""What Spark finds out about the history of each run against its longest log: jobs that end in evidence.

One join by run and operation id, from which everything follows. This module knows nothing of how logs are compared.
"""

from typing import Any

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.window import Window

from upheaval.checkers.evidence.logs import UNREADABLE
from upheaval.records import Function
from upheaval_pipeline.columnar import ANSWERED, CODES, ECHO, GROUP, LIST, OPEN, REGISTER, UNRECORDED
from upheaval_pipeline.evidence import evidence, first_of
from upheaval_pipeline.keys import GROUP_RESULT, judge_groups
from upheaval_pipeline.reach import Reach
from upheaval_pipeline.run_tables import RunTables
from upheaval_pipeline.tables import POSITION_RANGE

ECHO_GROUPS = 64
_SENT = ("line", "f", "key", "value", "invoke_ns", "complete_ns", "outcome", "result", "position", "session")


class Witness:
    """The longest log up to the commit position, its operations, and each operation of the history beside its entry."""

    def __init__(self, tables: RunTables, reach: Reach) -> None:
        longest = reach.runs.select("run", "member", "log_end", "until")
        whole = tables.recording.join(F.broadcast(longest), ["run", "member"]).where("end_position <= log_end")
        self.recorded = whole.where("end_position <= until")
        self.past_commit = whole.where("end_position > until")
        session = F.get_json_object("fields", "$.cluster_session_id").cast("long").alias("session")
        term = F.get_json_object("fields", "$.leadership_term_id").cast("long").alias("term")
        self.entries = self.recorded.where("operation_id IS NOT NULL").select(
            "run",
            F.col("operation_id").alias("id"),
            "f",
            "key",
            "value",
            F.col("end_position").alias("position"),
            session,
            term,
        )
        sent = tables.history.where(F.col("f") != Function.CALL.value)
        sent = sent.select("run", "id", *(F.col(name).alias(f"sent_{name}") for name in _SENT))
        places = self.entries.groupBy("run", "id").agg(
            F.count(F.lit(1)).alias("times"), F.min("position").alias("first"), F.max("position").alias("last")
        )
        joined = sent.join(self.entries, ["run", "id"], "full")
        joined = joined.join(F.broadcast(places.where("times > 1")), ["run", "id"], "left")
        self.joined = joined.sortWithinPartitions("run").persist()
        """Either side is null where the other one is alone; `times`, `first` and `last` where entries are several.

        Sorted once by what most jobs group by.
        """


_TIMES = ("inject_begin_ns", "inject_end_ns", "heal_begin_ns", "heal_end_ns")
FAULT = ("what", "where", *_TIMES, "inject_proof", "heal_proof", "members", "component", "is_drawn")


def bad_lines(tables: RunTables) -> list[DataFrame]:
    """The first malformed line of each source, and the first operation id that is there again."""
    first = tables.bad.groupBy("run", "source").agg(F.min(F.struct("member", "line", "reason")).alias("first"))
    operation = ["run", "id"]
    again = tables.history.groupBy(operation).agg(F.count(F.lit(1)).alias("times")).where("times > 1")
    several = tables.history.join(F.broadcast(again), operation, "left_semi")
    lines = several.groupBy(operation).agg(F.sort_array(F.collect_list("line")).alias("at"))
    second = lines.groupBy("run").agg(F.min(F.struct(F.element_at("at", 2).alias("at"), "id")).alias("first"))
    return [
        first.select(*evidence("bad line", F.col("first.line"), F.to_json(F.struct("source", "first.reason")))),
        second.select(*evidence("id twice", F.col("first.at"), None, F.col("first.id"))),
    ]


def traffic(tables: RunTables) -> DataFrame:
    """How many operations there are of each kind and outcome."""
    counted = tables.history.groupBy("run", "outcome", "f").agg(F.count(F.lit(1)).alias("n"))
    return counted.select(*evidence("traffic", F.col("n"), F.to_json(F.struct("outcome", "f"))))


def faults(tables: RunTables) -> DataFrame:
    """The faults as they are: few, and judged by what they say."""
    return tables.faults.select(*evidence("fault", F.col("line"), F.to_json(F.struct(*FAULT)), F.col("line")))


def by_operation(witness: Witness, reach: Reach) -> DataFrame:
    """Lost, applied twice, unexplained, too late for the final positions: each seen in one row of the join."""
    is_recorded = F.col("position").isNotNull()
    acknowledged = (F.col("sent_outcome") == "ok") & F.coalesce(F.col("position") == F.col("last"), F.lit(True))
    kept = (
        is_recorded
        & (F.col("f") == F.col("sent_f"))
        & (F.col("key") == F.col("sent_key"))
        & (F.col("value") == F.col("sent_value"))
        & F.coalesce(F.col("sent_position") == F.col("position"), F.lit(True))
        & F.coalesce(F.col("position") <= F.col("recorded"), F.lit(True))
    )
    is_past = (
        (F.col("sent_outcome") == "ok")
        & (F.col("sent_position") > F.col("lowest_commit"))
        & (F.col("sent_complete_ns") < F.col("completed_ns"))
    )
    again = (F.coalesce(F.col("position") > F.col("first"), F.lit(False))) | (F.col("sent_outcome") == "fail")
    bounds = reach.runs.select("run", "recorded", "lowest_commit", "completed_ns")
    bounded = witness.joined.join(F.broadcast(bounds), "run")
    found = bounded.groupBy("run").agg(
        F.count_if(acknowledged).alias("acknowledged"),
        F.count_if(is_recorded).alias("entries"),
        first_of(acknowledged & ~kept, F.col("sent_line"), *_shown()).alias("lost"),
        first_of(is_recorded & again, F.col("position"), "first", *_shown()).alias("again"),
        first_of(is_recorded & F.col("sent_line").isNull(), F.col("position"), *_shown()).alias("unexplained"),
        first_of(is_past, F.col("sent_line"), *_shown()).alias("past"),
    )
    rows = (
        F.struct(*evidence("acknowledged", F.col("acknowledged"), F.col("lost"))),
        F.struct(*evidence("applied once", F.col("entries"), F.col("again"))),
        F.struct(*evidence("explained", F.col("entries"), F.col("unexplained"))),
        F.struct(*evidence("past the end", None, F.col("past"))),
    )
    return found.select(F.inline(F.array(*rows)))


def unreadable(witness: Witness) -> DataFrame:
    """Where the first message ends that cannot be read, and why."""
    why = F.get_json_object("fields", f"$.{UNREADABLE}")
    first = (
        witness.recorded.where(F.col("type") == UNREADABLE)
        .groupBy("run")
        .agg(F.min("end_position").alias("at"), F.min_by(why, "end_position").alias("why"))
    )
    return first.select(*evidence("unreadable", F.col("at"), F.col("why")))


def past_commit(witness: Witness) -> DataFrame:
    """Where the first message of a client past the commit position ends."""
    first = witness.past_commit.where("f IS NOT NULL").groupBy("run").agg(F.min("end_position").alias("first"))
    return first.select(*evidence("past commit", F.col("first")))


def results(witness: Witness) -> DataFrame:
    """Sorted by run, key and position, each key goes to one task; `judge_groups` sees one key after the other."""
    judged = spread(witness).mapInArrow(judge_groups, GROUP_RESULT)
    first = first_of(F.col("violation").isNotNull(), F.col("position"), "position", "operation", "violation")
    return (
        judged.groupBy("run")
        .agg(F.sum("judged").alias("number"), first.alias("first"))
        .select(*evidence("results", F.col("number"), F.col("first")))
    )


def spread(witness: Witness) -> DataFrame:
    """The operations of each key in one task, in log order."""
    rows = grouped(witness.joined)
    return rows.repartition(*GROUP).sortWithinPartitions(*GROUP, "position")


def grouped(joined: DataFrame) -> DataFrame:
    """The entries in the log as `columnar` and `keys` want them, from the join. What would only repeat is null."""
    f = F.col("f")
    state = (
        F.when(F.col("sent_line").isNull(), UNRECORDED).when(F.col("sent_outcome") == "ok", ANSWERED).otherwise(OPEN)
    )
    return joined.where("position IS NOT NULL").select(
        "run",
        space_of(f).cast("byte").alias("space"),
        group_of(f, F.col("id"), F.col("key")).alias("group"),
        "position",
        "id",
        _code(f).alias("op"),
        state.cast("byte").alias("state"),
        "value",
        F.col("sent_result").alias("result"),
        F.when(f == "echo", F.col("key")).alias("key"),
        F.when(F.col("sent_value") != F.col("value"), F.col("sent_value")).alias("sent"),
        F.when(F.col("sent_key") != F.col("key"), F.col("sent_key")).alias("sent_key"),
        F.when(F.col("sent_f") != f, _code(F.col("sent_f"))).alias("sent_op"),
    )


def space_of(function: Any) -> Any:
    """The name space of the key of an operation."""
    return F.when(function.isin("append", "list"), LIST).when(function == "echo", ECHO).otherwise(REGISTER)


def group_of(function: Any, operation: Any, key: Any) -> Any:
    """What is judged together in a name space: a key; echoes have none and are spread by their ids."""
    return F.when(function == "echo", (operation % ECHO_GROUPS).cast("string")).otherwise(key)


def _code(function: Any) -> Any:
    code = F.lit(None).cast("byte")
    for name, number in CODES.items():
        code = F.when(function == name.value, F.lit(number).cast("byte")).otherwise(code)
    return code


def real_time(witness: Witness) -> DataFrame:
    """No entry lies after one that was invoked after it had completed: latest invocation, by range, then within."""
    rows = witness.joined.where("position IS NOT NULL AND sent_line IS NOT NULL").select(
        "run",
        "id",
        "position",
        "sent_f",
        "sent_key",
        "sent_value",
        "sent_result",
        "sent_complete_ns",
        (F.col("sent_outcome") == "ok").alias("answered"),
        F.floor(F.col("position") / POSITION_RANGE).alias("range"),
        # Of equally late invocations the one that lies first.
        F.struct(F.col("sent_invoke_ns").alias("ns"), (-F.col("position")).alias("at"), "id").alias("call"),
    )
    ranges = rows.groupBy("run", "range").agg(F.max("call").alias("latest"))
    earlier = Window.partitionBy("run").orderBy("range").rowsBetween(Window.unboundedPreceding, -1)
    ranges = ranges.select("run", "range", F.max("latest").over(earlier).alias("before_range"))
    within = Window.partitionBy("run", "range").orderBy("position").rowsBetween(Window.unboundedPreceding, -1)
    judged = rows.join(F.broadcast(ranges), ["run", "range"]).withColumn(
        "latest", F.greatest(F.max("call").over(within), F.col("before_range"))
    )
    too_late = F.col("answered") & (F.col("sent_complete_ns") < F.col("latest.ns"))
    shown = ("id", "sent_f", "sent_key", "sent_value", "sent_result", F.col("latest.id").alias("later"))
    first = judged.where(too_late).groupBy("run").agg(first_of(F.lit(True), F.col("position"), *shown).alias("text"))
    return first.select(*evidence("real time", None, F.col("text")))


def _shown() -> list[Any]:
    """What words a violation: the operation as it was sent, and its entry."""
    sent = [F.col(f"sent_{name}") for name in ("f", "key", "value", "result", "position", "outcome")]
    return [F.col("id"), *sent, *(F.col(name) for name in ("f", "key", "value", "position"))]


def calls(tables: RunTables, witness: Witness) -> DataFrame:
    """Calls are known by the digest of their payload: how often each was acknowledged, sent and recorded."""
    sent = (
        tables.history.where(F.col("f") == Function.CALL.value)
        .groupBy("run", F.col("value").alias("payload"))
        .agg(
            F.min("line").alias("line"),
            F.min_by("key", "line").alias("name"),
            F.count_if(F.col("outcome") == "ok").alias("acknowledged"),
            F.count_if(F.col("outcome") != "fail").alias("sent"),
        )
    )
    recorded = (
        witness.recorded.where(F.col("f") == Function.CALL.value)
        .groupBy("run", F.col("value").alias("payload"))
        .agg(
            F.count(F.lit(1)).alias("in_log"),
            F.min("end_position").alias("first_position"),
            F.max("end_position").alias("last_position"),
        )
    )
    both = sent.join(recorded, ["run", "payload"], "full").withColumn("in_log", F.coalesce("in_log", F.lit(0)))
    is_sent = F.col("line").isNotNull()
    shown = ("payload", "name", "acknowledged", "sent", "in_log", "last_position")
    found = both.groupBy("run").agg(
        F.count_if(is_sent).alias("payloads"),
        F.struct(
            F.sum("acknowledged").alias("acknowledged"),
            F.sum("sent").alias("sent"),
            F.sum(F.when(is_sent, F.col("in_log"))).alias("in_log"),
            first_of(is_sent & (F.col("in_log") < F.col("acknowledged")), F.col("line"), *shown).alias("lost"),
            first_of(is_sent & (F.col("in_log") > F.col("sent")), F.col("line"), *shown).alias("again"),
            first_of(~is_sent, F.col("first_position"), "payload").alias("unexplained"),
        ).alias("told"),
    )
    return found.select(*evidence("calls", F.col("payloads"), F.to_json("told")))
