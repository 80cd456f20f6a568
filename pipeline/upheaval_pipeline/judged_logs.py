"""What Spark finds out about the members' logs and about who led: jobs that end in evidence.

This module knows nothing of histories.
"""

from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import DataFrame, functions as F
from pyspark.sql.window import Window

from upheaval.checkers import run as in_process
from upheaval.checkers.positions import LogBounds, finals_of
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.evidence import evidence
from upheaval_pipeline.run_tables import RunTables

POSITION_RANGE = 1 << 18
_FRAMES = "kind IN ('frame', 'message', 'padding')"
_UNFRAGMENTED = 0xC0
_HEADER = ("length", "flags", "kind", "stream_id", "term_id", "reserved")


def member_ends(recording: DataFrame) -> DataFrame:
    """How far each member's log can be read: its pieces, as long as each one begins where the one before it ends."""
    order = Window.partitionBy("member").orderBy("from_position", "to_position")
    before = order.rowsBetween(Window.unboundedPreceding, 0)
    follows = F.lag("end_position").over(order) == F.col("from_position")
    extents = recording.where("kind = 'extent'").withColumn(
        "gap", F.when(F.coalesce(follows, F.lit(True)), 0).otherwise(1)
    )
    return (
        extents.withColumn("gaps", F.sum("gap").over(before))
        .where("gaps = 0")
        .groupBy("member")
        .agg(
            F.max("end_position").alias("log_end"),
            F.min("start_position").alias("log_start"),
            F.max_by("_reject", F.struct("from_position", "to_position")).alias("fault"),
            F.max(F.get_json_object("fields", "$.segment_length").cast("long")).alias("segment_length"),
        )
    )


def reaches(run: RunTables, ends: DataFrame, entries: DataFrame) -> DataFrame:
    """Where each log ends; of a log that ends too early also the operation that the longest one has after that."""
    finals = finals_of(run.manifest)
    short = [(F.col("member") == f.member_id) & (F.col("log_end") < f.append_position) for f in finals]
    too_short = ends.where(reduce(or_, short, F.lit(False))).select("member", "log_end")
    later = (
        entries.join(F.broadcast(too_short), F.col("position") > F.col("log_end"))
        .groupBy("member")
        .agg(F.min(F.struct("position", "id", "f", "key")).alias("next"))
    )
    described = F.to_json(F.struct("log_start", "fault", "segment_length", "next"))
    joined = ends.join(F.broadcast(later), "member", "left")
    return joined.select(*evidence("log", F.col("log_end"), described, F.col("member")))


def missing(run: RunTables) -> DataFrame:
    """Why the log of a member cannot be found."""
    rows = run.bad.where("source = 'recording' AND member IS NOT NULL")
    return rows.select(*evidence("no log", None, F.col("reason"), F.col("member")))


def leaders(run: RunTables, ends: DataFrame) -> DataFrame:
    """Claims in the order of `upheaval.checkers.run`: the first one of each term, and the first of another leader."""
    announced = (F.col("event") == TraceKind.LEADERSHIP_TERM) | F.col("message").isin(*in_process.LEADER_MESSAGES)
    trace = run.trace.where("leadership_term_id IS NOT NULL").withColumn("term", F.col("leadership_term_id"))
    line = F.format_string("member-%d/trace.jsonl:%d", "member", "line")
    events = run.recording.where("type = 'NewLeadershipTermEvent'").join(F.broadcast(ends), "member")
    logged = events.where("end_position <= log_end").withColumn(
        "term", F.get_json_object("fields", "$.leadership_term_id").cast("long")
    )
    place = F.format_string("log of member %d at position %d", "member", "end_position")
    claims = [
        _claims(logged, F.get_json_object("fields", "$.leader_member_id"), (0, "end_position", 0), place),
        _claims(trace.where(F.col("role") == in_process.ROLE_LEADER), F.col("member"), (1, "line", 0), line),
        _claims(
            trace.where(announced).dropna(subset=["leader_member_id"]), F.col("leader_member_id"), (1, "line", 1), line
        ),
    ]
    by_leader = reduce(DataFrame.union, claims).groupBy("term", "claim.leader").agg(F.min("claim").alias("claim"))
    by_term = by_leader.groupBy("term").agg(F.slice(F.sort_array(F.collect_list("claim")), 1, 2).alias("claims"))
    return by_term.select(*evidence("term", F.size("claims"), F.to_json("claims"), F.col("term")))


def _claims(rows: DataFrame, leader: Any, order: tuple[int, str, int], source: Any) -> DataFrame:
    """Claims with what they are ordered by: logs before traces, then members, then places."""
    kind, place, number = order
    by = F.array(
        F.lit(kind).cast("long"), F.col("member").cast("long"), F.col(place).cast("long"), F.lit(number).cast("long")
    )
    claim = F.struct(by.alias("by"), leader.cast("long").alias("leader"), source.alias("source"))
    return rows.select("term", claim.alias("claim"))


def difference(run: RunTables, ends: DataFrame, bounds: LogBounds) -> DataFrame:
    """Frames of the ranges whose fingerprints do not add up to the same in all logs, compared one by one."""
    limit = bounds.commit_position if finals_of(run.manifest) else None
    frames = run.recording.where(_FRAMES).join(F.broadcast(ends), "member").where("position < log_end")
    if limit is not None:
        frames = frames.where(F.col("position") < limit)
    frames = frames.withColumn("range", F.floor(F.col("position") / POSITION_RANGE))
    placed = F.xxhash64("position", "digest")
    sums = frames.groupBy("range", "member").agg(
        F.count(F.lit(1)).alias("n"), F.bit_xor(placed).alias("all_bits"), F.sum(placed % (1 << 40)).alias("all_low")
    )
    held = F.struct("n", "all_bits", "all_low")
    logs = ends.agg(F.count(F.lit(1)).alias("logs"))
    unequal = (
        sums.groupBy("range")
        .agg(F.count(F.lit(1)).alias("seen"), F.min(held).alias("least"), F.max(held).alias("most"))
        .crossJoin(F.broadcast(logs))
        .where("seen < logs OR least < most")
        .select("range")
    )
    return _compared(frames.join(F.broadcast(unequal), "range", "left_semi"), ends)


def _compared(frames: DataFrame, ends: DataFrame) -> DataFrame:
    """Of each log the first frame that is not the one which the first log of that segment has at its position."""
    is_whole = F.col("flags").bitwiseAND(_UNFRAGMENTED) == _UNFRAGMENTED
    said = F.when(is_whole, F.struct("type", "operation_id", "f", "key", "value", "fields"))
    here = F.struct("member", "digest", said.alias("said"), *_HEADER)
    log = F.struct("member", "log_end", "log_start", "segment_length")
    logs = ends.agg(F.sort_array(F.collect_list(log)).alias("logs"))
    held = frames.groupBy("position").agg(F.collect_list(here).alias("held")).crossJoin(F.broadcast(logs))
    position = F.col("position")

    def reaches_segment(log: Any) -> Any:
        return log["log_end"] >= position - (position - log["log_start"]) % log["segment_length"]

    one = F.get(F.filter("logs", reaches_segment), F.lit(0)).alias("one")
    others = F.explode("logs").alias("other")
    pairs = held.select("position", "held", one, others).where(
        "other.member > one.member AND other.log_end > position AND one.log_end > position"
    )

    def frame_of(which: str) -> Any:
        return F.get(F.filter("held", lambda frame: frame["member"] == F.col(f"{which}.member")), F.lit(0))

    pairs = pairs.select("position", "one", "other", frame_of("one").alias("a"), frame_of("other").alias("b"))
    differing = pairs.where("a IS NOT NULL AND NOT (a.digest <=> b.digest)")
    shown = F.struct("position", "one", "a", "b")
    first = differing.groupBy("other.member").agg(F.min_by(shown, "position").alias("first"))
    return first.select(*evidence("difference", F.col("first.position"), F.to_json("first"), F.col("member")))
