"""SQL over a lake: its tables, and views of what people ask first. Nothing is written, and nothing is judged here."""

import logging
from dataclasses import dataclass
from typing import Final

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from upheaval.errors import UsageError
from upheaval.report import GAP_NS
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.ingest import TABLES
from upheaval_pipeline.run_tables import table_of_lake
from upheaval_pipeline.verdicts import NAME as VERDICTS, OF, ROW, verdicts_of_lake


@dataclass(frozen=True, slots=True)
class View:
    """A named query over the tables and the views before it."""

    name: str
    row: str
    """What a row is."""
    sql: str


_Z: Final = 1.959964
"""Of the normal distribution, for an interval of 95 %. The intervals are those of Wilson."""

VIEWS: Final = (
    View(
        "ran",
        "a run: when and where it ran, and what",
        """SELECT run, created, host, runtime, get_json_object(manifest, '$.system') AS system,
        get_json_object(manifest, '$.version') AS version, members, sync_level,
        get_json_object(manifest, '$.service') AS service, seed, converged, scenario FROM runs""",
    ),
    View(
        "answers",
        "an answered operation, with its latency, and whether a fault had been begun and not healed when it was asked",
        """SELECT h.run, h.f, h.invoke_ns, h.complete_ns, (h.complete_ns - h.invoke_ns) / 1e6 AS latency_ms,
        EXISTS (SELECT 1 FROM faults AS o WHERE o.run = h.run AND o.inject_begin_ns <= h.invoke_ns
            AND (o.heal_end_ns IS NULL OR h.invoke_ns < o.heal_end_ns)) AS is_under_fault
        FROM history AS h WHERE h.outcome = 'ok'""",
    ),
    View(
        "latency",
        "a kind of operations of a run, under faults or not: how many, median and 99th percentile in ms",
        """SELECT run, f, is_under_fault, count(*) AS answered, percentile(latency_ms, 0.5) AS p50_ms,
        percentile(latency_ms, 0.99) AS p99_ms FROM answers GROUP BY run, f, is_under_fault""",
    ),
    View(
        "silences",
        f"a time of a run of more than {GAP_NS // 1_000_000} ms between two answers, and the faults that it met",
        f"""SELECT s.run, s.begin_ns, s.end_ns, (s.end_ns - s.begin_ns) / 1e6 AS length_ms,
        (SELECT array_sort(collect_set(o.what)) FROM faults AS o WHERE o.run = s.run AND o.inject_begin_ns < s.end_ns
            AND (o.heal_end_ns IS NULL OR s.begin_ns < o.heal_end_ns)) AS faults
        FROM (SELECT run, lag(complete_ns) OVER (PARTITION BY run ORDER BY complete_ns) AS begin_ns,
            complete_ns AS end_ns FROM answers) AS s WHERE s.end_ns - s.begin_ns > {GAP_NS}""",
    ),
    View(
        "availability",
        "a run: seconds from its first to its last answer, seconds in silences, the longest, and the share without",
        """SELECT a.run, a.length_s, coalesce(s.silent_s, 0D) AS silent_s, coalesce(s.longest_s, 0D) AS longest_s,
        1 - coalesce(s.silent_s, 0D) / nullif(a.length_s, 0) AS available
        FROM (SELECT run, (max(complete_ns) - min(complete_ns)) / 1e9 AS length_s FROM answers GROUP BY run) AS a
        LEFT JOIN (SELECT run, sum(length_ms) / 1e3 AS silent_s, max(length_ms) / 1e3 AS longest_s
            FROM silences GROUP BY run) AS s ON a.run = s.run""",
    ),
    View(
        "elections",
        "a state of an election of a member, and how many ms it was in it",
        f"""SELECT run, member, line, leadership_term_id, get_json_object(fields, '$.state') AS state, ts AS begin_ns,
        (lead(ts) OVER (PARTITION BY run, member ORDER BY line) - ts) / 1e6 AS length_ms
        FROM trace WHERE event = '{TraceKind.ELECTION_STATE}'""",
    ),
    View(
        "failovers",
        "a leader after the first: who, the ms from the last answer before it until it led, and until the next answer",
        f"""SELECT l.run, l.term, l.leader, l.led_ns,
        (l.led_ns - max(a.complete_ns) FILTER (WHERE a.complete_ns <= l.led_ns)) / 1e6 AS until_led_ms,
        (min(a.complete_ns) FILTER (WHERE a.complete_ns > l.led_ns)
            - max(a.complete_ns) FILTER (WHERE a.complete_ns <= l.led_ns)) / 1e6 AS until_answer_ms
        FROM (SELECT run, leadership_term_id AS term, min_by(leader_member_id, ts) AS leader, min(ts) AS led_ns,
            row_number() OVER (PARTITION BY run ORDER BY leadership_term_id) AS number
            FROM trace WHERE event = '{TraceKind.LEADERSHIP_TERM}' AND leader_member_id IS NOT NULL
            GROUP BY run, leadership_term_id) AS l
        LEFT JOIN answers AS a ON a.run = l.run WHERE l.number > 1 GROUP BY l.run, l.term, l.leader, l.led_ns""",
    ),
    View(
        "slow_elections",
        "one of the hundred longest elections: the ms from its first state to its end, and its states",
        """SELECT run, member, min(begin_ns) AS begin_ns, sum(length_ms) AS length_ms,
        array_sort(collect_set(state)) AS states
        FROM (SELECT *, count_if(state = 'CLOSED') OVER (PARTITION BY run, member ORDER BY line) AS number
            FROM elections) WHERE state <> 'CLOSED' GROUP BY run, member, number ORDER BY length_ms DESC LIMIT 100""",
    ),
    View(
        "judged",
        "a run as it is that was judged from the lake: its verdict, and the promises that are not valid",
        f"""SELECT v.run, min(v.run_verdict) AS verdict,
        array_sort(collect_set(v.promise) FILTER (WHERE v.verdict <> 'valid')) AS broken
        FROM {VERDICTS} AS v JOIN runs AS r ON v.run = r.run AND v.of = {OF} GROUP BY v.run""",
    ),
    View(
        "failures",
        "a set of promises that were not valid together: of how many runs, the first and the last, and three of them",
        """SELECT j.broken, j.verdict, count(*) AS runs, min(r.created) AS first, max(r.created) AS last,
        slice(array_sort(collect_list(j.run)), 1, 3) AS examples
        FROM judged AS j JOIN ran AS r ON j.run = r.run WHERE j.verdict <> 'valid' GROUP BY j.broken, j.verdict""",
    ),
    View(
        "flakes",
        "a scenario on a system: how many runs were judged, how many not valid, the rate, and its interval of 95 %",
        f"""SELECT scenario, system, runtime, runs, not_valid, not_valid / runs AS rate,
        greatest(0D, (p + z2 / 2 / runs - half) / (1 + z2 / runs)) AS lowest,
        least(1D, (p + z2 / 2 / runs + half) / (1 + z2 / runs)) AS highest
        FROM (SELECT *, sqrt(z2) * sqrt(p * (1 - p) / runs + z2 / 4 / runs / runs) AS half
            FROM (SELECT r.scenario, r.system, r.runtime, count(*) AS runs, count_if(j.verdict <> 'valid') AS not_valid,
                count_if(j.verdict <> 'valid') / count(*) AS p, {_Z * _Z}D AS z2
                FROM judged AS j JOIN ran AS r ON j.run = r.run GROUP BY r.scenario, r.system, r.runtime))""",
    ),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave; `is_cut` when there were more rows than wanted."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    is_cut: bool


def ask(spark: SparkSession, lake: str, sql: str, limit: int) -> Answer:
    """The first rows of a query. Raises `UsageError` for a folder that is no lake, and for what is no query."""
    _open(spark, lake)
    # PySpark would print the JVM's stack of a bad query.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    try:
        # Only a query can stand there: whatever changes something is not read as one.
        frame = spark.sql(f"SELECT * FROM (\n{sql.rstrip().rstrip(';')}\n)")
        found = frame.take(limit + 1)
    except (ParseException, AnalysisException) as error:
        raise UsageError(f"the query cannot be run: {_first_line(str(error))}") from None
    return Answer(tuple(frame.columns), tuple(tuple(row) for row in found[:limit]), len(found) > limit)


def shown_tables(spark: SparkSession, lake: str) -> list[tuple[str, str, str]]:
    """Each table and view: its name, what a row of it is, and its columns with their types."""
    _open(spark, lake)
    rows = {**TABLES, VERDICTS: ROW, **{view.name: view.row for view in VIEWS}}
    return [
        (name, row, ", ".join(f"{kept.name} {kept.dataType.simpleString()}" for kept in spark.table(name).schema))
        for name, row in rows.items()
    ]


def _open(spark: SparkSession, lake: str) -> None:
    for name in TABLES:
        table_of_lake(spark, lake, name).createOrReplaceTempView(name)
    verdicts_of_lake(spark, lake).createOrReplaceTempView(VERDICTS)
    for view in VIEWS:
        spark.sql(view.sql).createOrReplaceTempView(view.name)


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0].strip()
