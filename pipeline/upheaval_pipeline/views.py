"""The views of a lake: what people ask first of its tables, in SQL. Nothing here reads or runs anything."""

from dataclasses import dataclass
from typing import Final

from upheaval.report import CATCHING_UP, GAP_NS
from upheaval_node.trace_kinds import TraceKind


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
_PROVED: Final = "transform(filter(map_entries(fault_counts), fault -> fault.value.proved > 0), fault -> fault.key)"
"""The kinds of faults of which a seed proved one."""
NO_FAULT: Final = "none"
_STATES_OF: Final = {
    "canvass": ("INIT", "CANVASS"),
    "nomination": ("NOMINATE",),
    "ballot": ("CANDIDATE_BALLOT", "FOLLOWER_BALLOT"),
    "log": None,
    "ready": ("LEADER_INIT", "LEADER_READY"),
}
"""The states of an election in each phase of a failover; `log` has all others: replication, replay and catch-up."""
PHASES: Final = ("silence", *_STATES_OF, "answer")
"""Of a failover, in order: until the next leader's election begins, the election, and from its end to an answer."""


def _within(states: tuple[str, ...] | None) -> str:
    """The ns between the two answers of a failover in states of the election, in SQL."""
    others = tuple(state for group in _STATES_OF.values() if group for state in group)
    where = f"NOT IN {others}" if states is None else f"IN ({', '.join(map(repr, states))})"
    inside = "greatest(0, least(e.end_ns, w.next_answer_ns) - greatest(e.begin_ns, w.last_answer_ns))"
    return f"coalesce(sum({inside}) FILTER (WHERE e.state {where}), 0)"


NOT_VALID, LATENCY, FAILOVER = "not valid", "latency without faults, ms", "failover, ms"
"""What is compared between runs."""
SPLIT_MIN: Final = 3
"""So many runs are on each side of a split: fewer say little, and have no spread."""
SLOWER_MIN: Final = 0.1
"""A time that is longer by less is no regression, however sure that is."""


def _level_bound(sign: str, prefix: str) -> str:
    """A bound of the mean level of runs in SQL: of a rate after Wilson, of a time by its standard error."""
    total, runs, squares, level = (f"{prefix}{name}" for name in ("total", "runs", "squares", "level"))
    error = f"sqrt(greatest(0D, {squares} - {total} * {level}) / ({runs} - 1) / {runs})"
    return f"CASE WHEN what = '{NOT_VALID}' THEN {_bound(sign, total, runs)} ELSE {level} {sign} {_Z} * {error} END"


_LOW, _HIGH = (_bound(sign, "not_valid", "runs") for sign in "-+")

VIEWS: Final = (
    View(
        "ran",
        "a run: when and where it ran, and what; a simulated one has time and version of its ingest",
        """SELECT run, coalesce(nullif(created, ''), ingested) AS created, host, runtime,
        get_json_object(manifest, '$.system') AS system,
        coalesce(nullif(get_json_object(manifest, '$.version'), ''), ingested_by, '') AS version, members,
        get_json_object(manifest, '$.components') AS components, sync_level,
        get_json_object(manifest, '$.service') AS service,
        nullif(get_json_object(manifest, '$.source_digest'), '') AS service_digest, seed, converged, scenario, folder,
        labels FROM runs""",
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
        "fault_times",
        "a time of a run between answers: under a fault, until it was healed and the silences that it met were over, or"
        f" under no fault (`{NO_FAULT}`); how long, and how much of it in silences",
        f"""WITH load AS (SELECT run, min(complete_ns) AS first_ns, max(complete_ns) AS last_ns
            FROM answers GROUP BY run),
        under AS (SELECT o.run, o.line, o.what AS fault, greatest(o.inject_begin_ns, l.first_ns) AS begin_ns,
            least(greatest(coalesce(o.heal_end_ns, l.last_ns), coalesce(max(s.end_ns), 0)), l.last_ns) AS end_ns,
            l.first_ns
            FROM faults AS o JOIN load AS l ON l.run = o.run LEFT JOIN silences AS s ON s.run = o.run
                AND o.inject_begin_ns < s.end_ns AND s.begin_ns < coalesce(o.heal_end_ns, l.last_ns)
            GROUP BY o.run, o.line, o.what, o.inject_begin_ns, o.heal_end_ns, l.first_ns, l.last_ns),
        until AS (SELECT *, coalesce(max(end_ns) OVER (PARTITION BY run ORDER BY begin_ns, end_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), first_ns) AS earlier_ns
            FROM (SELECT * FROM under WHERE begin_ns < end_ns
                UNION ALL SELECT run, NULL, '{NO_FAULT}', last_ns, last_ns, first_ns FROM load)),
        times AS (SELECT run, line, fault, begin_ns, end_ns FROM until WHERE begin_ns < end_ns
            UNION ALL SELECT run, NULL, '{NO_FAULT}', earlier_ns, begin_ns FROM until WHERE earlier_ns < begin_ns)
        SELECT t.run, t.line, t.fault, t.begin_ns, t.end_ns, (t.end_ns - t.begin_ns) / 1e6 AS length_ms,
        coalesce(sum(least(s.end_ns, t.end_ns) - greatest(s.begin_ns, t.begin_ns)) FILTER (WHERE s.run IS NOT NULL), 0)
            / 1e6 AS silent_ms
        FROM times AS t LEFT JOIN silences AS s
            ON s.run = t.run AND s.begin_ns < t.end_ns AND t.begin_ns < s.end_ns GROUP BY ALL""",
    ),
    View(
        "elections",
        "a state of an election of a member, how many ms it was in it until the next one or its end, and the number of"
        " the election among those of the member; of no length where the member was killed",
        f"""SELECT run, member, line, leadership_term_id, state, begin_ns, end_ns,
        (end_ns - begin_ns) / 1e6 AS length_ms, number
        FROM (SELECT *, get_json_object(fields, '$.state') AS state, ts AS begin_ns,
            CASE WHEN lead(event) OVER w <> '{TraceKind.PROCESS_START}' THEN lead(ts) OVER w END AS end_ns,
            count_if(event = '{TraceKind.PROCESS_START}' OR get_json_object(fields, '$.state') = 'CLOSED')
                OVER (PARTITION BY run, member ORDER BY line ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS number
            FROM trace
            WHERE event IN ('{TraceKind.ELECTION_STATE}', '{TraceKind.PROCESS_START}', '{TraceKind.PROCESS_END}')
            WINDOW w AS (PARTITION BY run, member ORDER BY line))
        WHERE event = '{TraceKind.ELECTION_STATE}'""",
    ),
    View(
        "failovers",
        "a leader after the first: who, the last answer before it led and the next one, and the ms from the former"
        " until it led, and until the latter",
        f"""SELECT *, (led_ns - last_answer_ns) / 1e6 AS until_led_ms,
        (next_answer_ns - last_answer_ns) / 1e6 AS until_answer_ms
        FROM (SELECT l.run, l.term, l.leader, l.led_ns,
            max(a.complete_ns) FILTER (WHERE a.complete_ns <= l.led_ns) AS last_answer_ns,
            min(a.complete_ns) FILTER (WHERE a.complete_ns > l.led_ns) AS next_answer_ns
            FROM (SELECT run, leadership_term_id AS term, min_by(leader_member_id, ts) AS leader, min(ts) AS led_ns,
                row_number() OVER (PARTITION BY run ORDER BY leadership_term_id) AS number
                FROM trace WHERE event = '{TraceKind.LEADERSHIP_TERM}' AND leader_member_id IS NOT NULL
                GROUP BY run, leadership_term_id) AS l
            LEFT JOIN answers AS a ON a.run = l.run WHERE l.number > 1 GROUP BY l.run, l.term, l.leader, l.led_ns)""",
    ),
    View(
        "failover_phases",
        "a failover between two answers: the faults that it met, and the ms in each phase of the election that its"
        " leader won, which add up to the time between the answers",
        f"""SELECT f.run, f.term, f.leader, f.until_answer_ms, (SELECT array_sort(collect_set(o.what)) FROM faults AS o
            WHERE o.run = f.run AND o.inject_begin_ns < f.led_ns
            AND (o.heal_end_ns IS NULL OR f.last_answer_ns < o.heal_end_ns)) AS faults,
        greatest(0, least(f.begin_ns, f.next_answer_ns) - f.last_answer_ns) / 1e6 AS silence_ms,
        {", ".join(f"{name}_ns / 1e6 AS {name}_ms" for name in _STATES_OF)},
        greatest(0, f.next_answer_ns - greatest(f.end_ns, f.last_answer_ns)) / 1e6 AS answer_ms
        FROM (SELECT w.run, w.term, w.leader, w.led_ns, w.last_answer_ns, w.next_answer_ns, w.until_answer_ms,
            min(e.begin_ns) AS begin_ns, max(e.end_ns) AS end_ns,
            {", ".join(f"{_within(states)} AS {name}_ns" for name, states in _STATES_OF.items())}
            FROM (SELECT f.run, f.term, f.leader, f.led_ns, f.last_answer_ns, f.next_answer_ns, f.until_answer_ms,
                max_by(e.number, e.begin_ns) AS number
                FROM failovers AS f JOIN elections AS e ON e.run = f.run AND e.member = f.leader
                    AND e.begin_ns <= f.led_ns AND e.state LIKE 'LEADER!_%' ESCAPE '!'
                WHERE f.until_answer_ms IS NOT NULL GROUP BY ALL) AS w
            JOIN elections AS e ON e.run = w.run AND e.member = w.leader AND e.number = w.number
                AND e.state <> 'CLOSED' AND e.end_ns IS NOT NULL GROUP BY ALL) AS f""",
    ),
    View(
        "slow_elections",
        "one of the hundred longest elections: the ms from its first state to its end, and its states",
        """SELECT run, member, min(begin_ns) AS begin_ns, sum(length_ms) AS length_ms,
        array_sort(collect_set(state)) AS states
        FROM elections WHERE state <> 'CLOSED' AND end_ns IS NOT NULL
        GROUP BY run, member, number ORDER BY length_ms DESC LIMIT 100""",
    ),
    View(
        "catch_ups",
        "a time in which a member got what it missed of the log, as in the figures of the run: its states, how many"
        " bytes of the log, and the bytes a second",
        f"""SELECT run, member, begin_ns, end_ns, states, from_position, to_position,
        (to_position - from_position) * 1e9 / greatest(end_ns - begin_ns, 1) AS rate
        FROM (SELECT run, member, min_by(ts, line) FILTER (WHERE is_catching_up) AS begin_ns,
            min_by(position, line) FILTER (WHERE is_catching_up) AS from_position,
            max(ts) FILTER (WHERE NOT is_catching_up) AS end_ns,
            max(position) FILTER (WHERE NOT is_catching_up) AS to_position,
            array_sort(collect_set(state) FILTER (WHERE is_catching_up)) AS states
            FROM (SELECT *, count_if(NOT is_catching_up) OVER (PARTITION BY run, member ORDER BY line
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS number
                FROM (SELECT run, member, line, ts, get_json_object(fields, '$.state') AS state,
                    cast(get_json_object(fields, '$.append_position') AS bigint) AS position,
                    event = '{TraceKind.ELECTION_STATE}'
                        AND get_json_object(fields, '$.state') IN {CATCHING_UP} AS is_catching_up
                    FROM trace WHERE event = '{TraceKind.PROCESS_START}' OR (event = '{TraceKind.ELECTION_STATE}'
                        AND get_json_object(fields, '$.append_position') IS NOT NULL)))
            GROUP BY run, member, number) WHERE to_position > from_position""",
    ),
    View(
        "judged",
        "a run that was judged as it is in the lake: its verdict, and the promises that are not valid",
        """SELECT v.run, min(v.run_verdict) AS verdict,
        array_sort(collect_set(v.promise) FILTER (WHERE v.verdict <> 'valid')) AS broken
        FROM verdicts AS v GROUP BY v.run""",
    ),
    View(
        "failures",
        "a set of promises that were not valid together: of how many runs, the first and the last, and three of them",
        """SELECT j.broken, j.verdict, count(*) AS runs, min(r.created) AS first, max(r.created) AS last,
        slice(array_sort(collect_list(j.run)), 1, 3) AS examples
        FROM judged AS j JOIN ran AS r ON j.run = r.run WHERE j.verdict <> 'valid' GROUP BY j.broken, j.verdict""",
    ),
    View(
        "signatures",
        "a promise that was not valid and what was found, numbers apart: in how many runs and seeds, the first and the"
        " last run, and three of them by their folders",
        """SELECT promise, verdict, signature, count(DISTINCT run) AS runs, count(DISTINCT seed) AS seeds,
        min(created) AS first, max(created) AS last, array_sort(collect_set(commit)) AS commits,
        slice(array_sort(collect_set(folder)), 1, 3) AS folders
        FROM (SELECT v.promise, v.verdict, regexp_replace(v.detail, '[0-9]+', '#') AS signature, v.run,
            NULL AS seed, r.created, r.labels['commit'] AS commit, r.folder
            FROM verdicts AS v JOIN ran AS r ON r.run = v.run WHERE v.verdict <> 'valid'
            UNION ALL SELECT promise, verdict, regexp_replace(detail, '[0-9]+', '#'), NULL, struct(run, seed), NULL,
            NULL, nullif(folder, '') FROM seeds WHERE verdict <> 'valid') GROUP BY promise, verdict, signature""",
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
        sum(aggregate(map_values(fault_counts), 0L, (total, fates) -> total + fates.proved)) AS proved_faults,
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
        f"""SELECT system, version, split_part(move, '>', 1) AS from_state, split_part(move, '>', 2) AS to_state, fault,
        count(*) AS seeds, sum(moved) AS moves
        FROM (SELECT system, version, entry.key AS move, entry.value AS moved, explode({_PROVED}) AS fault
            FROM (SELECT system, version, explode(map_entries(moves)) AS entry, fault_counts FROM seeds))
        GROUP BY system, version, move, fault""",
    ),
    View(
        "state_coverage",
        "a state of elections and a kind of fault: the runs in which a member entered the state under the fault, and"
        " the seeds of campaigns in which both were seen",
        f"""SELECT system, version, state, fault, sum(runs) AS runs, sum(seeds) AS seeds
        FROM (SELECT r.system, r.version, e.state, t.fault, count(DISTINCT e.run) AS runs, 0 AS seeds
            FROM elections AS e JOIN fault_times AS t
                ON t.run = e.run AND t.begin_ns <= e.begin_ns AND e.begin_ns < t.end_ns
            JOIN ran AS r ON r.run = e.run GROUP BY ALL
            UNION ALL SELECT system, version, state, fault, 0, count(*)
            FROM (SELECT DISTINCT run, seed, system, version, split_part(move, '>', 2) AS state, fault
                FROM (SELECT *, explode({_PROVED}) AS fault
                    FROM (SELECT *, explode(map_keys(moves)) AS move FROM seeds)))
            GROUP BY ALL)
        GROUP BY ALL""",
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
    View(
        "labelled",
        "a run and one of its labels; `version` and `service` (the digest of its code) are among them",
        """SELECT run, created, scenario, system, runtime, entry.key AS label, entry.value AS value
        FROM (SELECT *, explode(map_entries(labels)) AS entry FROM ran)
        UNION ALL SELECT run, created, scenario, system, runtime, 'version', version FROM ran
        UNION ALL SELECT run, created, scenario, system, runtime, 'service', service_digest FROM ran
            WHERE service_digest IS NOT NULL""",
    ),
    View(
        "levels",
        f"a run and what is compared between runs: whether it is not valid (`{NOT_VALID}`, 0 or 1), or the median of a"
        " time in ms",
        f"""SELECT run, '{NOT_VALID}' AS what, CASE WHEN verdict = 'valid' THEN 0D ELSE 1D END AS level FROM judged
            WHERE verdict <> 'unreadable'
        UNION ALL SELECT run, '{LATENCY}', percentile(latency_ms, 0.5) FROM answers
            WHERE NOT is_under_fault GROUP BY run
        UNION ALL SELECT run, '{FAILOVER}', percentile(until_answer_ms, 0.5) FROM failovers
            WHERE until_answer_ms IS NOT NULL GROUP BY run""",
    ),
    View(
        "trend",
        "a value of a label, such as a commit: the mean level of its runs of a scenario, how many, and when they were",
        """SELECT b.label, b.value, b.scenario, b.system, b.runtime, l.what, min(b.created) AS first,
        max(b.created) AS last, count(*) AS runs, avg(l.level) AS level, sum(l.level) AS total,
        sum(l.level * l.level) AS squares
        FROM labelled AS b JOIN levels AS l ON l.run = b.run GROUP BY ALL""",
    ),
    View(
        "splits",
        "a value of a label that is not the first: the runs before it was first seen, and those since; how much higher"
        " the level is, and its interval of 95 % (Newcombe for rates, of means for times)",
        f"""SELECT label, value, scenario, system, runtime, what, first, base_runs, runs, base_level, level,
        level - base_level AS difference,
        level - base_level - sqrt(pow(level - lowest, 2) + pow(base_highest - base_level, 2)) AS lowest,
        level - base_level + sqrt(pow(highest - level, 2) + pow(base_level - base_lowest, 2)) AS highest
        FROM (SELECT *, {_level_bound("-", "")} AS lowest, {_level_bound("+", "")} AS highest,
            {_level_bound("-", "base_")} AS base_lowest, {_level_bound("+", "base_")} AS base_highest
            FROM (SELECT *, total / runs AS level, base_total / base_runs AS base_level
                FROM (SELECT label, value, scenario, system, runtime, what, first,
                    sum(runs) OVER since AS runs, sum(total) OVER since AS total, sum(squares) OVER since AS squares,
                    sum(runs) OVER before AS base_runs, sum(total) OVER before AS base_total,
                    sum(squares) OVER before AS base_squares
                    FROM trend
                    WINDOW before AS (PARTITION BY label, scenario, system, runtime, what ORDER BY first, value
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                    since AS (PARTITION BY label, scenario, system, runtime, what ORDER BY first, value
                        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING))
                WHERE base_runs >= {SPLIT_MIN} AND runs >= {SPLIT_MIN}))""",
    ),
    View(
        "changes",
        "what became worse, and since which value of a label: of its splits the one with the highest `lowest`, which is"
        f" above 0, for times above {SLOWER_MIN:.0%} of the level before",
        f"""SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY label, scenario, system, runtime, what
                ORDER BY lowest DESC, first) AS place FROM splits)
        WHERE place = 1 AND lowest > CASE WHEN what = '{NOT_VALID}' THEN 0D ELSE base_level * {SLOWER_MIN}D END""",
    ),
)
