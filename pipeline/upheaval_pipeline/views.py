"""The views of a lake: what people ask first of its tables, in SQL. Nothing here reads or runs anything."""

from dataclasses import dataclass
from typing import Final

from upheaval.campaign.findability import CHANCE_MAX
from upheaval.campaign.seed_lines import Fate
from upheaval.checkers.known_bugs import COMMIT
from upheaval.records import ENDINGS, FORCED_END, AdminCommand
from upheaval.records.labels import OF_RUNS
from upheaval.report import CATCHING_UP, GAP_NS
from upheaval.runtime_names import SIMULATED
from upheaval_node.trace_kinds import TraceKind
from upheaval_pipeline.intervals import (
    DIFFERENCE,
    FAILOVER,
    LATENCY,
    NOT_VALID,
    SLOWER_MIN,
    Z2_OF_ALL,
    is_worse,
    level_bound,
    level_bounds,
    rate_bound,
)


@dataclass(frozen=True, slots=True)
class View:
    """A named query over the tables and the views before it."""

    name: str
    row: str
    """What a row is."""
    sql: str


_OF_JUDGED: Final = """SELECT r.scenario, r.system, r.version, r.runtime, min(r.created) AS first, count(*) AS runs,
    count_if(j.verdict <> 'valid') AS not_valid
    FROM judged AS j JOIN ran AS r ON j.run = r.run WHERE j.verdict <> 'unreadable' GROUP BY ALL"""
"""Unreadable runs say nothing of the system."""
_OWN: Final = "coalesce(own_service, CASE WHEN service LIKE '%:%' THEN service END, '')"
"""The service that a user named for a campaign; nothing where each seed draws one of ours."""
_OF_SEEDS: Final = f"""SELECT rtrim(concat('campaign ', {_OWN})) AS scenario, system, version, runtime,
    min(ingested) AS first, count(*) AS runs, count_if(verdict <> 'valid') AS not_valid
    FROM seeds WHERE NOT coalesce(inconclusive, false) GROUP BY ALL"""
_PROVED: Final = "transform(filter(map_entries(fault_counts), fault -> fault.value.proved > 0), fault -> fault.key)"
"""The kinds of faults of which a seed proved one."""
_GAP_MS: Final = GAP_NS // 1_000_000
NO_FAULT: Final = "none"
PLANNED: Final = "planned"
_HALTS: Final = tuple(str(what) for what in (*ENDINGS, AdminCommand.SUSPEND, FORCED_END))
_BACK: Final = tuple(str(what) for what in (AdminCommand.START, AdminCommand.RESUME))
"""The commands after which clients are to be answered again."""
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


KEEP, FIX, QUARANTINE, OBSERVE = "keep", "fix", "quarantine", "observe"
FLAKY_MIN: Final = 0.01
ADVICE: Final = {
    KEEP: "where all are valid",
    FIX: "where the seed or the version decides",
    QUARANTINE: f"where the same code gives both and the interval is above {FLAKY_MIN:.0%}",
    OBSERVE: "where it is not yet",
}
"""By each piece of advice on a test, when it is given."""
SPLIT_MIN: Final = 3
"""So many runs are on each side of a split: fewer say little, and have no spread."""


def _numbers(version: str) -> str:
    """The first three numbers of a version in SQL, as a text that sorts like them; empty for other names."""
    padded = ", ".join(
        f"lpad(regexp_extract(split_part({version}, '.', {part}), '^[0-9]*', 0), 9, '0')" for part in (1, 2, 3)
    )
    return f"CASE WHEN {version} RLIKE '^[0-9]+([.]|$)' THEN concat({padded}) ELSE '' END"


_FOLLOWS: Final = f"""concat({_numbers("split_part(system, ':', 2)")}, ' ', {_numbers("version")}, ' ',
            coalesce(first, ''))"""
"""By which versions of one system follow each other: by their numbers, else by the time of their first run or campaign.

Where both are equal, neither follows the other.
"""
_LOW, _HIGH = (rate_bound(sign, "not_valid", "runs") for sign in "-+")

_NUMBERS_OF_CONTROL: Final = ("begin_ns", "end_ns", "leader", "operations")

_POSITION: Final = "try_cast(get_json_object(fields, '$.append_position') AS bigint)"
"""Where a trace has no number there, Spark would end the whole query at a plain cast."""


def _field_of_control(path: str) -> str:
    return f"get_json_object(controls, concat('$[', n, '].{path}'))"


VIEWS: Final = (
    View(
        "ran",
        "a run: when and where it ran, and what; `version` is that of the system, `made_by` that of Upheaval;"
        " `scenario` is its title or the test that made it; a simulated run has time and version of its ingest",
        """SELECT run, coalesce(nullif(created, ''), ingested) AS created, host, runtime,
        get_json_object(manifest, '$.system') AS system,
        coalesce(nullif(split_part(get_json_object(manifest, '$.system'), ':', 2), ''),
            nullif(get_json_object(manifest, '$.version'), ''), ingested_by, '') AS version,
        coalesce(nullif(get_json_object(manifest, '$.version'), ''), ingested_by, '') AS made_by, members,
        get_json_object(manifest, '$.components') AS components, sync_level,
        get_json_object(manifest, '$.service') AS service,
        nullif(get_json_object(manifest, '$.source_digest'), '') AS service_digest, seed, converged,
        coalesce(scenario, labels['test']) AS scenario, folder, labels FROM runs""",
    ),
    View(
        "controls",
        "a command of an operator to the cluster or to a node beside it, such as shutdown; `leader` took it, -1 if no"
        " member did; `members` is JSON text",
        f"""SELECT run, n + 1 AS line, {_field_of_control("what")} AS what,
        {", ".join(f"try_cast({_field_of_control(name)} AS bigint) AS {name}" for name in _NUMBERS_OF_CONTROL)},
        {_field_of_control("proof.holds")} = 'true' AS holds, {_field_of_control("proof.evidence")} AS evidence,
        {_field_of_control("members")} AS members
        FROM (SELECT run, controls, explode(sequence(0, cast(json_array_length(controls) AS int) - 1)) AS n
            FROM runs
            WHERE json_array_length(controls) > 0)""",
    ),
    View(
        "halts",
        f"a time in which operators wanted no answers: from a proved {', '.join(_HALTS)} (of all members) to the end of"
        f" the next {' or '.join(_BACK)}; to the first answer to a later request, if it came before that or that never"
        " came; or without an end",
        f"""SELECT run, min_by(what, line) AS what, min(begin_ns) AS begin_ns, end_ns
        FROM (SELECT c.run, c.line, c.what, c.begin_ns, coalesce(min(h.complete_ns), c.back_ns) AS end_ns
            FROM (SELECT *, min(CASE WHEN what IN {_BACK} THEN begin_ns END) OVER w AS back_begin_ns,
                    min(CASE WHEN what IN {_BACK} THEN end_ns END) OVER w AS back_ns FROM controls WINDOW w AS
                    (PARTITION BY run ORDER BY line ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)) AS c
            JOIN runs AS r ON r.run = c.run
            LEFT JOIN history AS h ON h.run = c.run AND h.outcome = 'ok' AND h.invoke_ns > c.end_ns
                AND (c.back_ns IS NULL OR h.complete_ns < c.back_begin_ns)
            WHERE c.what IN {_HALTS} AND c.holds
                AND (c.what <> '{FORCED_END}' OR size(json_object_keys(c.members)) = r.members)
            GROUP BY c.run, c.line, c.what, c.begin_ns, c.back_ns)
        GROUP BY run, end_ns""",
    ),
    View(
        "disturbances",
        "a fault or a command of an operator, and when it began",
        """SELECT run, 'fault' AS kind, what, inject_begin_ns AS begin_ns FROM faults
        UNION ALL SELECT run, 'command', what, begin_ns FROM controls""",
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
        "loads",
        "the time in which clients of a run waited for answers: from the first request to the last answer, or to the"
        f" end of the run where a request never got one that was made later than {_GAP_MS} ms before the last answer",
        f"""SELECT o.run, o.begin_ns, CASE WHEN o.answer_ns IS NULL THEN greatest(e.end_ns, o.begin_ns + 1)
            WHEN o.other_ns > o.answer_ns - {GAP_NS} THEN e.end_ns ELSE o.answer_ns END AS end_ns,
        o.answer_ns IS NOT NULL AS is_answered
        FROM (SELECT run, min(invoke_ns) AS begin_ns, max(CASE WHEN outcome = 'ok' THEN complete_ns END) AS answer_ns,
            max(CASE WHEN outcome <> 'ok' THEN invoke_ns END) AS other_ns FROM history GROUP BY run) AS o
        JOIN (SELECT run, max(ns) AS end_ns FROM (SELECT run, coalesce(complete_ns, invoke_ns) AS ns FROM history
                UNION ALL SELECT run, invoke_ns FROM history
                UNION ALL SELECT run, coalesce(heal_end_ns, inject_begin_ns) FROM faults
                UNION ALL SELECT run, ts FROM trace)
            GROUP BY run) AS e ON e.run = o.run""",
    ),
    View(
        "silences",
        f"a time of more than {_GAP_MS} ms without an answer within the load of a run, or the whole load where there is"
        " no answer, and the faults that it met; from `outage_end_ns` on it is part of a halt",
        f"""SELECT s.run, s.begin_ns, s.end_ns, (s.end_ns - s.begin_ns) / 1e6 AS length_ms,
        greatest(s.begin_ns, least(s.end_ns, coalesce(s.halt_ns, s.end_ns))) AS outage_end_ns,
        (SELECT array_sort(collect_set(o.what)) FROM faults AS o WHERE o.run = s.run AND o.inject_begin_ns < s.end_ns
            AND (o.heal_end_ns IS NULL OR s.begin_ns < o.heal_end_ns)) AS faults
        FROM (SELECT g.run, g.begin_ns, g.end_ns, min(h.begin_ns) AS halt_ns
            FROM (SELECT run, lag(ns) OVER (PARTITION BY run ORDER BY ns) AS begin_ns, ns AS end_ns
                FROM (SELECT run, complete_ns AS ns FROM history WHERE outcome = 'ok'
                    UNION ALL SELECT run, begin_ns FROM loads UNION ALL SELECT run, end_ns FROM loads)) AS g
            JOIN loads AS l ON l.run = g.run
            LEFT JOIN halts AS h ON h.run = g.run AND h.begin_ns < g.end_ns
                AND (h.end_ns IS NULL OR g.begin_ns < h.end_ns)
            WHERE g.end_ns - g.begin_ns > {GAP_NS} OR (NOT l.is_answered AND g.begin_ns < g.end_ns)
            GROUP BY g.run, g.begin_ns, g.end_ns) AS s""",
    ),
    View(
        "fault_times",
        "a time within the load of a run: under a fault, until it was healed and the silences that it met were over;"
        f" `{PLANNED}`, the same of a halt; or `{NO_FAULT}`, under neither. How long, and how much of it in silences,"
        " those of halts only where it is planned",
        f"""WITH load AS (SELECT run, begin_ns AS first_ns, end_ns AS last_ns FROM loads),
        acts AS (SELECT run, line, what, inject_begin_ns AS begin_ns, heal_end_ns AS end_ns FROM faults
            UNION ALL SELECT run, NULL, '{PLANNED}', begin_ns, end_ns FROM halts),
        silent AS (SELECT run, false AS of_halts, begin_ns, outage_end_ns AS end_ns FROM silences
            UNION ALL SELECT run, true, begin_ns, end_ns FROM silences),
        under AS (SELECT o.run, o.line, o.what AS fault, greatest(o.begin_ns, l.first_ns) AS begin_ns,
            least(greatest(coalesce(o.end_ns, l.last_ns), coalesce(max(s.end_ns), 0)), l.last_ns) AS end_ns,
            l.first_ns
            FROM acts AS o JOIN load AS l ON l.run = o.run LEFT JOIN silent AS s ON s.run = o.run
                AND s.of_halts = (o.what = '{PLANNED}')
                AND o.begin_ns < s.end_ns AND s.begin_ns < coalesce(o.end_ns, l.last_ns)
            GROUP BY o.run, o.line, o.what, o.begin_ns, o.end_ns, l.first_ns, l.last_ns),
        until AS (SELECT *, coalesce(max(end_ns) OVER (PARTITION BY run ORDER BY begin_ns, end_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), first_ns) AS earlier_ns
            FROM (SELECT * FROM under WHERE begin_ns < end_ns
                UNION ALL SELECT run, NULL, '{NO_FAULT}', last_ns, last_ns, first_ns FROM load)),
        times AS (SELECT run, line, fault, begin_ns, end_ns FROM until WHERE begin_ns < end_ns
            UNION ALL SELECT run, NULL, '{NO_FAULT}', earlier_ns, begin_ns FROM until WHERE earlier_ns < begin_ns)
        SELECT t.run, t.line, t.fault, t.begin_ns, t.end_ns, (t.end_ns - t.begin_ns) / 1e6 AS length_ms,
        coalesce(sum(least(s.end_ns, t.end_ns) - greatest(s.begin_ns, t.begin_ns)) FILTER (WHERE s.run IS NOT NULL), 0)
            / 1e6 AS silent_ms
        FROM times AS t LEFT JOIN silent AS s ON s.run = t.run AND s.of_halts = (t.fault = '{PLANNED}')
            AND s.begin_ns < t.end_ns AND t.begin_ns < s.end_ns GROUP BY ALL""",
    ),
    View(
        "availability",
        "a run: seconds of its load, how many of them planned, seconds in other silences, the longest, and the share"
        " without these of what was not planned",
        f"""SELECT a.run, a.length_s, coalesce(p.planned_s, 0D) AS planned_s, coalesce(s.silent_s, 0D) AS silent_s,
        coalesce(s.longest_s, 0D) AS longest_s,
        1 - coalesce(s.silent_s, 0D) / nullif(a.length_s - coalesce(p.planned_s, 0D), 0) AS available
        FROM (SELECT run, (end_ns - begin_ns) / 1e9 AS length_s FROM loads) AS a
        LEFT JOIN (SELECT run, sum(outage_end_ns - begin_ns) / 1e9 AS silent_s,
            max(outage_end_ns - begin_ns) / 1e9 AS longest_s FROM silences GROUP BY run) AS s ON a.run = s.run
        LEFT JOIN (SELECT run, sum(greatest(0, end_ns - greatest(begin_ns, earlier_ns))) / 1e9 AS planned_s
            FROM (SELECT run, begin_ns, end_ns, coalesce(max(end_ns) OVER (PARTITION BY run ORDER BY begin_ns, end_ns
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), begin_ns) AS earlier_ns
                FROM fault_times WHERE fault = '{PLANNED}')
            GROUP BY run) AS p ON p.run = a.run""",
    ),
    View(
        "objectives",
        "a scenario on a version of a system: seconds that were not planned, the share with answers, the share that was"
        " to have them (`--slo`), the seconds without answers that this allows, and the share of those that is used up",
        """SELECT *, 1 - silent_s / nullif(seconds, 0) AS available, (1 - objective) * seconds AS budget_s,
        silent_s / nullif((1 - objective) * seconds, 0) AS spent
        FROM (SELECT r.scenario, r.system, r.version, r.runtime, o.objective, count(*) AS runs,
            count_if(a.available < o.objective) AS runs_below, sum(a.length_s - a.planned_s) AS seconds,
            sum(a.silent_s) AS silent_s
            FROM availability AS a JOIN ran AS r ON r.run = a.run CROSS JOIN slo AS o GROUP BY ALL)""",
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
        "a leader after the first: who, the last answer before it led and the next one, the ms from the former until it"
        " led, and until the latter; and whether a halt was in the time before it led",
        f"""SELECT *, (led_ns - last_answer_ns) / 1e6 AS until_led_ms,
        (next_answer_ns - last_answer_ns) / 1e6 AS until_answer_ms,
        EXISTS (SELECT 1 FROM halts AS h WHERE h.run = f.run AND h.begin_ns < f.led_ns
            AND (h.end_ns IS NULL OR f.last_answer_ns < h.end_ns)) AS is_planned
        FROM (SELECT l.run, l.term, l.leader, l.led_ns,
            max(a.complete_ns) FILTER (WHERE a.complete_ns <= l.led_ns) AS last_answer_ns,
            min(a.complete_ns) FILTER (WHERE a.complete_ns > l.led_ns) AS next_answer_ns
            FROM (SELECT run, leadership_term_id AS term, min_by(leader_member_id, ts) AS leader, min(ts) AS led_ns,
                row_number() OVER (PARTITION BY run ORDER BY leadership_term_id) AS number
                FROM trace WHERE event = '{TraceKind.LEADERSHIP_TERM}' AND leader_member_id IS NOT NULL
                GROUP BY run, leadership_term_id) AS l
            LEFT JOIN answers AS a ON a.run = l.run WHERE l.number > 1
            GROUP BY l.run, l.term, l.leader, l.led_ns) AS f""",
    ),
    View(
        "failover_phases",
        f"a failover between two answers: the faults that it met (`{PLANNED}`: a halt), and the ms in each phase of the"
        " election that its leader won, which add up to the time between the answers",
        f"""SELECT f.run, f.term, f.leader, f.until_answer_ms,
        concat((SELECT array_sort(collect_set(o.what)) FROM faults AS o WHERE o.run = f.run
            AND o.inject_begin_ns < f.led_ns AND (o.heal_end_ns IS NULL OR f.last_answer_ns < o.heal_end_ns)),
            CASE WHEN f.is_planned THEN array('{PLANNED}') ELSE array() END) AS faults,
        greatest(0, least(f.begin_ns, f.next_answer_ns) - f.last_answer_ns) / 1e6 AS silence_ms,
        {", ".join(f"{name}_ns / 1e6 AS {name}_ms" for name in _STATES_OF)},
        greatest(0, f.next_answer_ns - greatest(f.end_ns, f.last_answer_ns)) / 1e6 AS answer_ms
        FROM (SELECT w.run, w.term, w.leader, w.led_ns, w.last_answer_ns, w.next_answer_ns, w.until_answer_ms,
            w.is_planned, min(e.begin_ns) AS begin_ns, max(e.end_ns) AS end_ns,
            {", ".join(f"{_within(states)} AS {name}_ns" for name, states in _STATES_OF.items())}
            FROM (SELECT f.run, f.term, f.leader, f.led_ns, f.last_answer_ns, f.next_answer_ns, f.until_answer_ms,
                f.is_planned, max_by(e.number, e.begin_ns) AS number
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
        (to_position - from_position) * 1e9 / greatest(end_ns - begin_ns, 1) AS bytes_per_s
        FROM (SELECT run, member, min_by(ts, line) FILTER (WHERE is_catching_up) AS begin_ns,
            min_by(position, line) FILTER (WHERE is_catching_up) AS from_position,
            max(ts) FILTER (WHERE NOT is_catching_up) AS end_ns,
            max(position) FILTER (WHERE NOT is_catching_up) AS to_position,
            array_sort(collect_set(state) FILTER (WHERE is_catching_up)) AS states
            FROM (SELECT *, count_if(NOT is_catching_up) OVER (PARTITION BY run, member ORDER BY line
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS number
                FROM (SELECT run, member, line, ts, get_json_object(fields, '$.state') AS state,
                    {_POSITION} AS position,
                    event = '{TraceKind.ELECTION_STATE}'
                        AND get_json_object(fields, '$.state') IN {CATCHING_UP} AS is_catching_up
                    FROM trace WHERE event = '{TraceKind.PROCESS_START}' OR (event = '{TraceKind.ELECTION_STATE}'
                        AND {_POSITION} IS NOT NULL)))
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
        FROM judged AS j LEFT JOIN ran AS r ON j.run = r.run WHERE j.verdict <> 'valid'
        GROUP BY j.broken, j.verdict""",
    ),
    View(
        "signatures",
        "a promise that was not valid and what was found, numbers apart: in how many runs and seeds, the times of the"
        " first and the last one (of seeds: of their ingest), three seeds, and three folders",
        """SELECT promise, verdict, signature, count(DISTINCT run) AS runs, count(DISTINCT seed) AS seeds,
        min(created) AS first, max(created) AS last, array_sort(collect_set(commit)) AS commits,
        slice(array_sort(collect_set(seed.seed)), 1, 3) AS seed_numbers,
        slice(array_sort(collect_set(folder)), 1, 3) AS folders
        FROM (SELECT v.promise, v.verdict, regexp_replace(v.detail, '[0-9]+', '#') AS signature, v.run,
            NULL AS seed, r.created, r.labels['commit'] AS commit, r.folder
            FROM verdicts AS v LEFT JOIN ran AS r ON r.run = v.run WHERE v.verdict <> 'valid'
            UNION ALL SELECT promise, verdict, regexp_replace(detail, '[0-9]+', '#'), NULL, struct(run, seed),
            ingested, NULL, nullif(folder, '') FROM seeds WHERE verdict <> 'valid') GROUP BY ALL""",
    ),
    View(
        "flakes",
        "a scenario or test on a system: how many runs were judged, how many not valid, the rate with its interval of"
        " 95 % (Wilson), on how many versions of all code there were both valid runs and others, and what to do:"
        f" {', '.join(f'`{word}` {when}' for word, when in ADVICE.items())}",
        f"""SELECT scenario, system, runtime, runs, not_valid, rate, lowest, highest, mixed,
        CASE WHEN not_valid = 0 THEN '{KEEP}' WHEN runtime = '{SIMULATED}' OR mixed = 0 THEN '{FIX}'
            WHEN lowest > {FLAKY_MIN}D THEN '{QUARANTINE}' ELSE '{OBSERVE}' END AS advice
        FROM (SELECT *, not_valid / runs AS rate, {_LOW} AS lowest, {_HIGH} AS highest
            FROM (SELECT scenario, system, runtime, sum(runs) AS runs, sum(not_valid) AS not_valid,
                count_if(0 < not_valid AND not_valid < runs) AS mixed
                FROM (SELECT r.scenario, r.system, r.runtime, count(*) AS runs,
                    count_if(j.verdict <> 'valid') AS not_valid
                    FROM judged AS j JOIN ran AS r ON j.run = r.run WHERE j.verdict <> 'unreadable'
                    GROUP BY r.scenario, r.system, r.runtime, r.version, r.service_digest, r.labels['commit'])
                GROUP BY scenario, system, runtime))""",
    ),
    View(
        "campaigns",
        "a campaign on a version of a system: how many of its seeds count (valid, and not inconclusive) and how many do"
        f" not, and the smallest rate of a failure that those which count exclude with {1 - CHANCE_MAX:.0%}",
        f"""SELECT *, CASE WHEN counted > 0 THEN 1 - pow({CHANCE_MAX}D, 1D / counted) ELSE 1D END AS excluded_rate
        FROM (SELECT run, ingested, system, version, runtime, count(*) AS seeds,
            count_if(verdict = 'valid' AND NOT coalesce(inconclusive, false)) AS counted,
            count_if(verdict = 'valid' AND inconclusive) AS inconclusive,
            count_if(verdict NOT IN ('valid', 'invalid')) AS unknown, count_if(verdict = 'invalid') AS invalid,
            avg(processor_seconds) AS processor_s_a_seed, sum(operations) AS operations FROM seeds GROUP BY ALL)""",
    ),
    View(
        "campaign_faults",
        "a kind of fault of a campaign on a version of a system: in how many seeds it was planned, and how many were"
        " planned, proved, unseen (begun, but not proved) and left out",
        f"""SELECT run, ingested, system, version, runtime, entry.key AS fault,
        count_if(entry.value.planned > 0) AS seeds, {", ".join(f"sum(entry.value.{one}) AS {one}" for one in Fate)}
        FROM (SELECT *, explode(map_entries(fault_counts)) AS entry FROM seeds) GROUP BY ALL""",
    ),
    View(
        "seed_outcomes",
        "a verdict on seeds of campaigns (of one service, where the user named it): of how many, their operations and"
        " faults that were proved, three of them",
        f"""SELECT system, version, runtime, {_OWN} AS service, verdict, promise, count(*) AS seeds,
        count_if(inconclusive) AS inconclusive, sum(operations) AS operations, sum(seconds) AS seconds,
        sum(aggregate(map_values(fault_counts), 0L, (total, fates) -> total + fates.proved)) AS proved_faults,
        slice(array_sort(collect_list(seed)), 1, 3) AS examples FROM seeds GROUP BY ALL""",
    ),
    View(
        "seed_flakes",
        "a seed that was run more than once on the same: how often, how often not valid, and its verdicts",
        f"""SELECT system, version, runtime, {_OWN} AS service, seed, count(*) AS runs,
        count_if(verdict <> 'valid') AS not_valid, count_if(verdict <> 'valid') / count(*) AS rate,
        array_sort(collect_set(verdict)) AS verdicts
        FROM seeds GROUP BY ALL HAVING count(*) > 1""",
    ),
    View(
        "tapes",
        "a choice that made a seed of a simulated campaign: its label and its value as text, the span that it is in,"
        " such as `fault` (nothing: the whole tape), and the number of the span, from 0",
        """SELECT run, seed, choice.span AS span, choice.number AS number, choice.label AS label,
        choice.value AS value FROM (SELECT run, seed, explode(choices) AS choice FROM seeds)""",
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
        "a state of elections and a kind of fault: the runs in which a member entered the state under the fault, which"
        " was proved, and the seeds of campaigns in which both were seen",
        f"""SELECT system, version, state, fault, sum(runs) AS runs, sum(seeds) AS seeds
        FROM (SELECT r.system, r.version, e.state, t.fault, count(DISTINCT e.run) AS runs, 0 AS seeds
            FROM elections AS e JOIN fault_times AS t
                ON t.run = e.run AND t.begin_ns <= e.begin_ns AND e.begin_ns < t.end_ns
            LEFT JOIN faults AS o ON o.run = t.run AND o.line = t.line
            JOIN ran AS r ON r.run = e.run WHERE t.line IS NULL OR o.inject_proof.holds GROUP BY ALL
            UNION ALL SELECT system, version, state, fault, 0, count(*)
            FROM (SELECT DISTINCT run, seed, system, version, split_part(move, '>', 2) AS state, fault
                FROM (SELECT *, explode({_PROVED}) AS fault
                    FROM (SELECT *, explode(map_keys(moves)) AS move FROM seeds)))
            GROUP BY ALL)
        GROUP BY ALL""",
    ),
    View(
        "tried",
        "a scenario on a version of a system, and all seeds of campaigns on it (`campaign`, and the service that a user"
        " named): judged runs, not valid, the rate, and when the first run was made (of campaigns: ingested)",
        f"""SELECT *, not_valid / runs AS rate, {_LOW} AS lowest, {_HIGH} AS highest
        FROM ({_OF_JUDGED} UNION ALL {_OF_SEEDS})""",
    ),
    View(
        "labelled",
        "a run and one of its labels; `version` and `service` (the digest of its code) are among them, and always those"
        " of the run",
        f"""SELECT run, created, scenario, system, runtime, entry.key AS label, entry.value AS value
        FROM (SELECT *, explode(map_entries(labels)) AS entry FROM ran) WHERE entry.key NOT IN {OF_RUNS}
        UNION ALL SELECT run, created, scenario, system, runtime, 'version', version FROM ran
        UNION ALL SELECT run, created, scenario, system, runtime, 'service', service_digest FROM ran
            WHERE service_digest IS NOT NULL""",
    ),
    View(
        "levels",
        f"a run and what is compared between runs: whether it is not valid (`{NOT_VALID}`, 0 or 1), or the median of a"
        " time in ms; a failover in a halt has none",
        f"""SELECT run, '{NOT_VALID}' AS what, CASE WHEN verdict = 'valid' THEN 0D ELSE 1D END AS level FROM judged
            WHERE verdict <> 'unreadable'
        UNION ALL SELECT run, '{LATENCY}', percentile(latency_ms, 0.5) FROM answers
            WHERE NOT is_under_fault GROUP BY run
        UNION ALL SELECT run, '{FAILOVER}', percentile(until_answer_ms, 0.5) FROM failovers
            WHERE until_answer_ms IS NOT NULL AND NOT is_planned GROUP BY run""",
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
        "a value of a label that is not the first (`A or B`: of one time): the runs before it was first seen, and those"
        " since; how much higher the level is, and its interval (Newcombe for rates, Student's t of means for times):"
        " with 95 % those of all splits in the lake hold together (Bonferroni)",
        f"""SELECT label, value, scenario, system, runtime, what, first, base_runs, runs, base_level, level,
        {DIFFERENCE}
        FROM (SELECT *, {level_bounds("z2")}
            FROM (SELECT *, total / runs AS level, base_total / base_runs AS base_level, {Z2_OF_ALL} AS z2
                FROM (SELECT label, value, scenario, system, runtime, what, first,
                    sum(runs) OVER since AS runs, sum(total) OVER since AS total, sum(squares) OVER since AS squares,
                    sum(runs) OVER before AS base_runs, sum(total) OVER before AS base_total,
                    sum(squares) OVER before AS base_squares
                    FROM (SELECT label, array_join(array_sort(collect_set(value)), ' or ') AS value, scenario, system,
                        runtime, what, first, sum(runs) AS runs, sum(total) AS total, sum(squares) AS squares
                        FROM trend GROUP BY label, scenario, system, runtime, what, first)
                    WINDOW before AS (PARTITION BY label, scenario, system, runtime, what ORDER BY first
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING),
                    since AS (PARTITION BY label, scenario, system, runtime, what ORDER BY first
                        ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING))
                WHERE base_runs >= {SPLIT_MIN} AND runs >= {SPLIT_MIN}))""",
    ),
    View(
        "pairs",
        "two values of a label, such as two branches: how much higher the level of a scenario is with the second, and"
        " its interval of 95 % (Newcombe for rates, Student's t of means for times); a time with one run has none",
        f"""SELECT label, base_value, value, scenario, system, runtime, what, base_first, first, base_runs, runs,
        base_level, level, {DIFFERENCE}
        FROM (SELECT *, {level_bounds()}
            FROM (SELECT b.label, a.value AS base_value, b.value, b.scenario, b.system, b.runtime, b.what,
                a.first AS base_first, b.first, a.runs AS base_runs, b.runs, a.total AS base_total, b.total,
                a.squares AS base_squares, b.squares, a.level AS base_level, b.level
                FROM trend AS a JOIN trend AS b ON a.label = b.label AND a.value <> b.value
                    AND a.scenario <=> b.scenario AND a.system = b.system AND a.runtime = b.runtime
                    AND a.what = b.what))""",
    ),
    View(
        "regressions",
        "a scenario on a version of a system, and on a later version or another system: how much higher the level is"
        f" (the rate of runs that are not valid; with {SPLIT_MIN} runs on both, the times of `levels`), its"
        " interval of 95 % as in `pairs`, and whether the version is the newest of the scenario",
        f"""WITH tries AS (SELECT '{NOT_VALID}' AS what, scenario, system, version, runtime, first, runs,
            rate AS level, lowest, highest FROM tried
            UNION ALL SELECT what, scenario, system, value, runtime, first, runs, level,
                {level_bound("-", "")}, {level_bound("+", "")}
            FROM trend WHERE label = 'version' AND what <> '{NOT_VALID}' AND runs >= {SPLIT_MIN}),
        placed AS (SELECT *, split_part(system, ':', 1) AS name, {_FOLLOWS} AS place FROM tries),
        ordered AS (SELECT *, place = max(place) OVER (PARTITION BY what, scenario, runtime, name) AS is_newest
            FROM placed)
        SELECT b.what, b.scenario, b.runtime, a.name = b.name AS is_same_system, b.is_newest,
        a.system AS base_system, a.version AS base_version, b.system, b.version,
        a.runs AS base_runs, b.runs, a.level AS base_level, b.level, b.level - a.level AS difference,
        b.level - a.level - sqrt(pow(b.level - b.lowest, 2) + pow(a.highest - a.level, 2)) AS lowest,
        b.level - a.level + sqrt(pow(b.highest - b.level, 2) + pow(a.level - a.lowest, 2)) AS highest
        FROM ordered AS a JOIN ordered AS b ON a.what = b.what AND a.scenario <=> b.scenario AND a.runtime = b.runtime
            AND (a.name <> b.name OR a.place < b.place)""",
    ),
    View(
        "track_record",
        "a known bug of Aeron on a version (`has_it`: null where only runs say so): its scenario's runs, in how many"
        " the promise was broken that finds it, by a known bug of that name, and how many were valid",
        f"""SELECT k.issue, k.version, k.has_it, k.promise, r.runtime, count(*) AS runs,
        count_if(coalesce(v.verdict = 'invalid' AND k.issue = coalesce(cast(v.known_issue AS string),
            replace(v.known_cause, '{COMMIT}', '')), false)) AS found, count_if(j.verdict = 'valid') AS valid
        FROM known_bugs AS k JOIN ran AS r ON r.scenario = k.scenario AND r.system = concat('aeron:', k.version)
        JOIN judged AS j ON j.run = r.run AND j.verdict <> 'unreadable'
        LEFT JOIN verdicts AS v ON v.run = r.run AND v.promise = k.promise
        GROUP BY k.issue, k.version, k.has_it, k.promise, r.runtime""",
    ),
    View(
        "preceded",
        "a promise that was not valid: the end of what a record dates, else when its operation ended, or the first from"
        f" its position on, and the fault or command that began last before it (`{NO_FAULT}`: there was none), and how"
        " long; where the moment is not known, the last of the run",
        f"""SELECT run, promise, verdict, signature, moment_ns, coalesce(act, '{NO_FAULT}') AS act, kind,
        (moment_ns - begin_ns) / 1e6 AS after_ms
        FROM (SELECT m.run, m.promise, m.verdict, m.signature, m.moment_ns, d.what AS act, d.kind, d.begin_ns,
            row_number() OVER (PARTITION BY m.run, m.number ORDER BY d.begin_ns DESC, d.what) AS place
            FROM (SELECT v.run, v.number, v.promise, v.verdict, regexp_replace(v.detail, '[0-9]+', '#') AS signature,
                coalesce(v.when_end_ns, min(coalesce(o.complete_ns, o.invoke_ns)),
                    min_by(coalesce(p.complete_ns, p.invoke_ns), p.position)) AS moment_ns
                FROM verdicts AS v LEFT JOIN history AS o ON o.run = v.run AND o.id = v.operation
                    AND coalesce(o.position >= v.position, true)
                LEFT JOIN history AS p ON p.run = v.run AND o.id IS NULL AND p.position >= v.position
                WHERE v.verdict NOT IN ('valid', 'unreadable')
                GROUP BY v.run, v.number, v.promise, v.verdict, v.detail, v.when_end_ns) AS m
            LEFT JOIN disturbances AS d ON d.run = m.run AND (m.moment_ns IS NULL OR d.begin_ns <= m.moment_ns))
        WHERE place = 1""",
    ),
    View(
        "changes",
        "what became worse, and since which value of a label: of its splits the one with the highest `lowest`, which is"
        f" above 0, for times above {SLOWER_MIN:.0%} of the level before",
        f"""SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY label, scenario, system, runtime, what
                ORDER BY lowest DESC, first) AS place FROM splits)
        WHERE place = 1 AND {is_worse("")}""",
    ),
)
