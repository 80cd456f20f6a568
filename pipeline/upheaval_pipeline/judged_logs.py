"""What Spark finds out about the members' logs and about who led, run by run: jobs that end in evidence.

This module knows nothing of histories.
"""

from typing import Any

from pyspark.sql import Column, DataFrame, functions as F
from pyspark.sql.window import Window

from upheaval.checkers import run as in_process
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.evidence import evidence
from upheaval_pipeline.reach import Reach
from upheaval_pipeline.run_tables import RunTables
from upheaval_pipeline.tables import POSITION_RANGE

ANNOUNCES = "type = 'NewLeadershipTermEvent'"
_FRAMES = "kind IN ('frame', 'message', 'padding')"
_UNFRAGMENTED = 0xC0
_HEADER = ("length", "flags", "kind", "stream_id", "term_id", "reserved")


def member_ends(recording: DataFrame) -> DataFrame:
    """How far each member's log can be read: its pieces, as long as each one begins where the one before it ends."""
    order = Window.partitionBy("run", "member").orderBy("from_position", "to_position")
    before = order.rowsBetween(Window.unboundedPreceding, 0)
    follows = F.lag("end_position").over(order) == F.col("from_position")
    extents = recording.where("kind = 'extent'").withColumn(
        "gap", F.when(F.coalesce(follows, F.lit(True)), 0).otherwise(1)
    )
    return (
        extents.withColumn("gaps", F.sum("gap").over(before))
        .where("gaps = 0")
        .groupBy("run", "member")
        .agg(
            F.max("end_position").alias("log_end"),
            F.min("start_position").alias("log_start"),
            F.max_by("_reject", F.struct("from_position", "to_position")).alias("fault"),
            F.max(F.get_json_object("fields", "$.segment_length").cast("long")).alias("segment_length"),
        )
    )


def missed(reach: Reach, entries: DataFrame) -> list[DataFrame]:
    """Of each log that ends too early the operation that the longest one has after that; mostly there is none."""
    if reach.too_short is None:
        return []
    later = entries.join(F.broadcast(reach.too_short), "run").where(F.col("position") > F.col("log_end"))
    found = later.groupBy("run", "member").agg(F.min(F.struct("position", "id", "f", "key")).alias("next"))
    return [found.select(*evidence("next", None, F.to_json("next"), F.col("member")))]


def missing(tables: RunTables) -> DataFrame:
    """Why the log of a member cannot be found."""
    rows = tables.bad.where("source = 'recording' AND member IS NOT NULL")
    return rows.select(*evidence("no log", None, F.col("reason"), F.col("member")))


def leaders(tables: RunTables, reach: Reach) -> DataFrame:
    """Claims in the order of `upheaval.checkers.run`: the first one of each term, and the first of another leader."""
    events = tables.recording.where(ANNOUNCES).join(F.broadcast(reach.logs), ["run", "member"])
    logged = events.where("end_position <= log_end").select("run", logged_claim().alias("claim"))
    found = logged.union(tables.trace.select("run", F.explode(traced_claims()).alias("claim")))
    found = found.where("claim.term IS NOT NULL").select("run", "claim.term", "claim")
    by_leader = found.groupBy("run", "term", "claim.leader").agg(F.min("claim").alias("claim"))
    by_term = by_leader.groupBy("run", "term").agg(F.slice(F.sort_array(F.collect_list("claim")), 1, 2).alias("claims"))
    return by_term.select(*evidence("term", F.size("claims"), F.to_json("claims"), F.col("term")))


def logged_claim() -> Column:
    """What a row of a recording that announces a term says of its leader."""
    term, leader = (
        F.get_json_object("fields", f"$.{name}").cast("long") for name in ("leadership_term_id", "leader_member_id")
    )
    place = F.format_string("log of member %d at position %d", "member", "end_position")
    return _claim(term, leader, (0, "end_position", 0), place)


def traced_claims() -> Column:
    """What a row of a trace says of who led a term: an array."""
    term, leader = F.col("leadership_term_id"), F.col("leader_member_id")
    announced = (F.col("event") == TraceKind.LEADERSHIP_TERM) | F.col("message").isin(*in_process.LEADER_MESSAGES)
    line = F.format_string("member-%d/trace.jsonl:%d", "member", "line")
    leads = term.isNotNull() & (F.col("role") == in_process.ROLE_LEADER)
    names = term.isNotNull() & announced & leader.isNotNull()
    claims = (
        F.when(leads, _claim(term, F.col("member"), (1, "line", 0), line)),
        F.when(names, _claim(term, leader, (1, "line", 1), line)),
    )
    return F.array_compact(F.array(*claims))


def _claim(term: Column, leader: Column, order: tuple[int, str, int], source: Column) -> Column:
    """With what claims are ordered by: logs before traces, then members, then places."""
    kind, place, number = order
    by = F.array(
        F.lit(kind).cast("long"), F.col("member").cast("long"), F.col(place).cast("long"), F.lit(number).cast("long")
    )
    return F.struct(by.alias("by"), leader.cast("long").alias("leader"), source.alias("source"), term.alias("term"))


def difference(tables: RunTables, reach: Reach) -> DataFrame:
    """Frames of the ranges whose fingerprints do not add up to the same in all logs, compared one by one."""
    frames = tables.recording.where(_FRAMES).join(F.broadcast(reach.logs), ["run", "member"]).where("position < until")
    frames = frames.withColumn("range", F.floor(F.col("position") / POSITION_RANGE))
    placed = F.xxhash64("position", "digest")
    sums = frames.groupBy("run", "range", "member").agg(
        F.count(F.lit(1)).alias("n"), F.bit_xor(placed).alias("all_bits"), F.sum(placed % (1 << 40)).alias("all_low")
    )
    held = F.struct("n", "all_bits", "all_low")
    unequal = (
        sums.groupBy("run", "range")
        .agg(F.count(F.lit(1)).alias("seen"), F.min(held).alias("least"), F.max(held).alias("most"))
        .join(F.broadcast(reach.runs.select("run", "logs")), "run")
        .where("seen < logs OR least < most")
        .select("run", "range")
    )
    return _compared(frames.join(F.broadcast(unequal), ["run", "range"], "left_semi"), reach)


def _compared(frames: DataFrame, reach: Reach) -> DataFrame:
    """Of each log the first frame that is not the one which the first log of that segment has at its position."""
    is_whole = F.col("flags").bitwiseAND(_UNFRAGMENTED) == _UNFRAGMENTED
    said = F.when(is_whole, F.struct("type", "operation_id", "f", "key", "value", "fields"))
    here = F.struct("member", "digest", said.alias("said"), *_HEADER)
    log = F.struct("member", "log_end", "log_start", "segment_length")
    logs = reach.logs.groupBy("run").agg(F.sort_array(F.collect_list(log)).alias("logs"))
    held = frames.groupBy("run", "position").agg(F.collect_list(here).alias("held")).join(F.broadcast(logs), "run")
    position = F.col("position")

    def reaches_segment(log: Any) -> Any:
        return log["log_end"] >= position - (position - log["log_start"]) % log["segment_length"]

    one = F.get(F.filter("logs", reaches_segment), F.lit(0)).alias("one")
    others = F.explode("logs").alias("other")
    pairs = held.select("run", "position", "held", one, others).where(
        "other.member > one.member AND other.log_end > position AND one.log_end > position"
    )

    def frame_of(which: str) -> Any:
        return F.get(F.filter("held", lambda frame: frame["member"] == F.col(f"{which}.member")), F.lit(0))

    pairs = pairs.select("run", "position", "one", "other", frame_of("one").alias("a"), frame_of("other").alias("b"))
    differing = pairs.where("a IS NOT NULL AND NOT (a.digest <=> b.digest)")
    shown = F.struct("position", "one", "a", "b")
    first = differing.groupBy("run", "other.member").agg(F.min_by(shown, "position").alias("first"))
    return first.select(*evidence("difference", F.col("first.position"), F.to_json("first"), F.col("member")))
