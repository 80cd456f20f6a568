"""The views of a lake: what people ask first of its tables, in SQL. Nothing here reads or runs anything."""

from dataclasses import dataclass
from typing import Final

from upheaval.report import GAP_NS
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.verdicts import NAME as VERDICTS


@dataclass(frozen=True, slots=True)
class View:
    """A named query over the tables and the views before it."""

    name: str
    row: str
    """What a row is."""
    sql: str


_Z: Final = 1.959964
"""Of the normal distribution, for an interval of 95 %."""


def _bound(sign: str, count: str, of: str) -> str:
    """The lower (`-`) or upper (`+`) bound of a rate in SQL, after Wilson."""
    z2, p = _Z * _Z, f"{count} / {of}"
    half = f"{_Z} * sqrt({p} * (1 - {p}) / {of} + {z2 / 4}D / {of} / {of})"
    return f"greatest(0D, least(1D, ({p} + {z2 / 2}D / {of} {sign} {half}) / (1 + {z2}D / {of})))"


_OF_JUDGED: Final = """SELECT r.scenario, r.system, r.version, r.runtime, count(*) AS runs,
    count_if(j.verdict <> 'valid') AS not_valid
    FROM judged AS j JOIN ran AS r ON j.run = r.run WHERE j.verdict <> 'unreadable' GROUP BY ALL"""
"""Unreadable runs say nothing of the system."""
_OF_SEEDS: Final = """SELECT 'campaign' AS scenario, system, version, runtime, count(*) AS runs,
    count_if(verdict <> 'valid') AS not_valid FROM seeds WHERE NOT coalesce(inconclusive, false) GROUP BY ALL"""
_LOW, _HIGH = (_bound(sign, "not_valid", "runs") for sign in "-+")

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
        FROM {VERDICTS} AS v GROUP BY v.run""",
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
        f"""SELECT *, not_valid / runs AS rate, {_LOW} AS lowest, {_HIGH} AS highest
        FROM (SELECT scenario, system, runtime, sum(runs) AS runs, sum(not_valid) AS not_valid FROM ({_OF_JUDGED})
            GROUP BY ALL)""",
    ),
    View(
        "seed_outcomes",
        "a verdict on seeds of campaigns: of how many, their operations and faults that were proved, three of them",
        """SELECT system, version, runtime, verdict, promise, count(*) AS seeds,
        count_if(inconclusive) AS inconclusive, sum(operations) AS operations, sum(seconds) AS seconds,
        sum(aggregate(map_values(fault_counts), 0L, (sum, each) -> sum + each.proved)) AS proved_faults,
        slice(array_sort(collect_list(seed)), 1, 3) AS examples
        FROM seeds GROUP BY system, version, runtime, verdict, promise""",
    ),
    View(
        "seed_flakes",
        "a seed that was run more than once on the same: how often, how often not valid, and its verdicts",
        """SELECT system, version, runtime, seed, count(*) AS runs, count_if(verdict <> 'valid') AS not_valid,
        count_if(verdict <> 'valid') / count(*) AS rate, array_sort(collect_set(verdict)) AS verdicts
        FROM seeds GROUP BY system, version, runtime, seed HAVING count(*) > 1""",
    ),
    View(
        "coverage",
        "a move between states of elections, and a kind of fault: in how many seeds both were seen, how often the move",
        """SELECT system, version, split_part(move, '>', 1) AS from_state, split_part(move, '>', 2) AS to_state, fault,
        count(*) AS seeds, sum(moved) AS moves
        FROM (SELECT system, version, explode(moves) AS (move, moved), fault_counts FROM seeds)
        LATERAL VIEW explode(map_keys(map_filter(fault_counts, (kind, fates) -> fates.proved > 0))) AS fault
        GROUP BY system, version, move, fault""",
    ),
    View(
        "tried",
        "a scenario on a version of a system, and all seeds of campaigns on it: judged runs, not valid, and the rate",
        f"""SELECT *, not_valid / runs AS rate, {_LOW} AS lowest, {_HIGH} AS highest
        FROM ({_OF_JUDGED} UNION ALL {_OF_SEEDS})""",
    ),
    View(
        "regressions",
        "a scenario on a base and on another system or version: how much higher the rate of runs that are not valid is,"
        " and its interval of 95 % (Newcombe): worse when `lowest` is above 0",
        """SELECT a.scenario, a.runtime, a.system AS base_system, a.version AS base_version, b.system, b.version,
        a.runs AS base_runs, a.not_valid AS base_not_valid, b.runs, b.not_valid, b.rate - a.rate AS difference,
        b.rate - a.rate - sqrt(pow(b.rate - b.lowest, 2) + pow(a.highest - a.rate, 2)) AS lowest,
        b.rate - a.rate + sqrt(pow(b.highest - b.rate, 2) + pow(a.rate - a.lowest, 2)) AS highest
        FROM tried AS a JOIN tried AS b ON a.scenario = b.scenario AND a.runtime = b.runtime
            AND (a.system <> b.system OR a.version <> b.version)""",
    ),
)
