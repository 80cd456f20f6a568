"""What people ask of many runs: each question is a query over the views of a lake, and how its answer is drawn.

Nothing here reads or runs anything.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from upheaval.campaign.findability import CHANCE_MAX
from upheaval.campaign.seed_lines import Fate
from upheaval_node.cluster.election_states import ElectionState
from upheaval_pipeline.intervals import FAILOVER, LATENCY, NOT_VALID, is_worse
from upheaval_pipeline.views import NO_FAULT, PHASES, QUARANTINE, SPLIT_MIN


@dataclass(frozen=True, slots=True)
class Bars:
    """A bar for each row, named by what `labels` hold; `low` and `high` are the ends of an interval around it.

    With `by`, each value of that column has a separate plot, with its unit in `UNITS`.
    """

    labels: tuple[str, ...]
    value: str
    unit: str
    low: str = ""
    high: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class Spans:
    """For each row a line from one value to the other, on a logarithmic axis."""

    labels: tuple[str, ...]
    begin: str
    end: str
    unit: str


@dataclass(frozen=True, slots=True)
class Stacks:
    """For each row a bar made of several values, one after the other; `whole` is the number at its end.

    `colours` are names of those of the page. With `by`, each value of that column has a separate plot.
    """

    labels: tuple[str, ...]
    values: tuple[str, ...]
    whole: str
    unit: str
    colours: tuple[str, ...] = ()
    by: str = ""


@dataclass(frozen=True, slots=True)
class Heat:
    """A cell for each row, the darker the higher its value; what is in no row is 0."""

    down: str
    across: str
    value: str


@dataclass(frozen=True, slots=True)
class Grounds:
    """A query for what was judged or compared, and what the lake lacks where that has no row."""

    sql: str
    without: str


@dataclass(frozen=True, slots=True)
class Question:
    """`without` says what the lake lacks when there is no answer."""

    name: str
    sentence: str
    sql: str
    plot: Bars | Spans | Stacks | Heat
    without: str
    alarm: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether a row of the answer is bad news."""
    grounds: Grounds | None = None
    """What an answer without bad news is known from, if not from its own rows."""


MS, SHARE, RATE = "ms", "share", "bytes a second"
UNITS: Final = {NOT_VALID: SHARE, LATENCY: MS, FAILOVER: MS}
"""Of what is compared between runs."""
_OF: Final = ("system", "version", "runtime")
"""Times are compared between runs of the same system in the same version on the same runtime."""
_NO_CAMPAIGN: Final = "no campaign: `upheaval ingest` takes the folders of `upheaval campaign --out`"
_NO_VERDICT: Final = "the lake has no runs: `upheaval ingest` judges those that it is given"
_JUDGED: Final = Grounds("SELECT run FROM judged UNION ALL SELECT run FROM seeds", _NO_VERDICT)
_NO_LABELS: Final = "labels such as commit do not count here: see `changes` and `compare`"


def _of_level(what: str) -> str:
    return f"max(level) FILTER (WHERE what = '{what}')"


def _phases(quantile: str, fraction: float) -> str:
    """A row for each kind of fault: one quantile of each phase."""
    names = (*PHASES, "until_answer")
    columns = ", ".join(f"percentile({name}_ms, {fraction}) AS {name}_ms" for name in names)
    return f"""SELECT fault, system, version, runtime, '{quantile}' AS quantile, count(*) AS failovers, {columns}
        FROM (SELECT *, explode(CASE WHEN size(faults) > 0 THEN faults ELSE array('{NO_FAULT}') END) AS fault
            FROM failover_phases) JOIN ran USING (run) GROUP BY ALL"""


SUMMARY: Final = """SELECT count(*) AS runs, min(created) AS first, max(created) AS last,
    array_sort(collect_set(made_by)) AS versions, (SELECT count(DISTINCT run) FROM seeds) AS campaigns FROM ran"""
"""What a page of answers is about."""
UNJUDGED: Final = """SELECT count(*) AS runs
    FROM (SELECT run FROM runs UNION SELECT run FROM unreadable_runs) AS r LEFT JOIN judged AS j ON j.run = r.run
    WHERE coalesce(j.verdict, 'unreadable') = 'unreadable'"""
"""How many runs have no verdict, or cannot be read."""
UNKNOWN_VALUES: Final = """SELECT DISTINCT c.label, c.value
    FROM (SELECT label, base_value AS value FROM compared UNION ALL SELECT label, value FROM compared) AS c
    LEFT JOIN labelled AS l ON l.label = c.label AND l.value = c.value WHERE l.run IS NULL ORDER BY c.label, c.value"""
"""The values that are to be compared and that no run has."""
QUESTIONS: Final = (
    Question(
        "availability",
        "For which share of the time were clients without answers, under each fault, planned and under none?",
        """SELECT fault, system, version, runtime, members, components, sync_level, count(DISTINCT run) AS runs,
        sum(length_ms) / 1e3 AS seconds, sum(silent_ms) / 1e3 AS silent_s,
        1 - sum(silent_ms) / sum(length_ms) AS available, sum(silent_ms) / sum(length_ms) AS silent
        FROM fault_times JOIN ran USING (run) GROUP BY ALL ORDER BY silent DESC, seconds DESC""",
        Bars(("fault", "members", "components", "sync_level", *_OF), "silent", SHARE),
        "no run with answers",
    ),
    Question(
        "slo",
        "How much of the time that may pass without answers (`--slo`, planned halts not counted) is used up?",
        """SELECT coalesce(scenario, 'no scenario') AS scenario, system, version, runtime, runs, runs_below, seconds,
        silent_s, available, objective, budget_s, spent FROM objectives ORDER BY spent DESC, seconds DESC, scenario""",
        Bars(("scenario", *_OF), "spent", "share of the budget"),
        "no run with requests",
        alarm=lambda row: row["spent"] is not None and row["spent"] > 1,
    ),
    Question(
        "failovers",
        "How long is each phase between the last answer before a failover and the first one after it, and (in numbers)"
        " the whole?",
        f"""SELECT * FROM ({_phases("median", 0.5)} UNION ALL {_phases("p99", 0.99)})
        ORDER BY fault, system, version, runtime, quantile""",
        Stacks(("fault", "quantile", *_OF), tuple(f"{name}_ms" for name in PHASES), "until_answer_ms", MS),
        "no run with a failover between two answers",
    ),
    Question(
        "latency",
        "How much longer do answers take under each fault than under none?",
        f"""SELECT *, p50_ms / nullif(max(p50_ms) FILTER (WHERE fault = '{NO_FAULT}') OVER alike, 0) AS p50_ratio,
        p99_ms / nullif(max(p99_ms) FILTER (WHERE fault = '{NO_FAULT}') OVER alike, 0) AS p99_ratio
        FROM (SELECT t.fault, r.system, r.version, r.runtime, count(*) AS answers,
            percentile(a.latency_ms, 0.5) AS p50_ms, percentile(a.latency_ms, 0.99) AS p99_ms
            FROM answers AS a JOIN fault_times AS t
                ON t.run = a.run AND t.begin_ns <= a.invoke_ns AND a.invoke_ns < t.end_ns
            JOIN ran AS r ON r.run = a.run GROUP BY ALL)
        WINDOW alike AS (PARTITION BY system, version, runtime) ORDER BY system, version, runtime, p99_ms DESC""",
        Spans(("fault", *_OF), "p50_ms", "p99_ms", MS),
        "no run with answers",
    ),
    Question(
        "catch-ups",
        "How many bytes of the log a second did members get that had missed some, the slowest first?",
        """SELECT c.bytes_per_s, c.to_position - c.from_position AS bytes, (c.end_ns - c.begin_ns) / 1e6 AS length_ms,
        r.folder, c.member, r.scenario, r.system, r.version, r.runtime, c.states, r.run
        FROM catch_ups AS c JOIN ran AS r ON r.run = c.run ORDER BY bytes_per_s""",
        Bars(("scenario", "member", "run", *_OF), "bytes_per_s", RATE),
        "no member that caught up and traced its position",
    ),
    Question(
        "flakes",
        "What share of the judged runs of each scenario or test is not valid, with an interval of 95 % (Wilson), and"
        " what is to be done with it?",
        f"""SELECT coalesce(scenario, 'no scenario') AS scenario, system, runtime, runs, not_valid, rate, lowest,
        highest, mixed, advice FROM flakes
        ORDER BY advice = '{QUARANTINE}' DESC, rate DESC, runs DESC, scenario""",
        Bars(("scenario", "advice", "system", "runtime"), "rate", SHARE, "lowest", "highest"),
        _NO_VERDICT,
        alarm=lambda row: row["advice"] == QUARANTINE,
    ),
    Question(
        "regressions",
        "By how much are more runs not valid, answers slower or failovers longer on a version than on an earlier one"
        " (or on another system), with an interval of 95 % for each row? A version that is worse is `mended` where the"
        " newest one is shown to be better than it, and is not shown to be worse than the same earlier one",
        f"""WITH differing AS (SELECT *, {is_worse("")} AS is_worse FROM regressions),
        better AS (SELECT DISTINCT what, scenario, runtime, base_system, base_version FROM regressions
            WHERE is_same_system AND is_newest AND highest < 0)
        SELECT concat(base_system, ' ', base_version, ' to ', system, ' ', version) AS change, what,
        coalesce(scenario, 'no scenario') AS scenario, runtime, base_system, base_version, system, version, base_runs,
        runs, base_level, level, difference, lowest, highest,
        CASE WHEN NOT is_same_system THEN 'another system' WHEN is_worse AND is_mended THEN 'mended'
            WHEN is_worse THEN 'worse' WHEN highest < 0 THEN 'better' ELSE 'not shown' END AS outcome
        FROM (SELECT d.*, b.what IS NOT NULL AND NOT max(d.is_worse AND d.is_newest) OVER (PARTITION BY d.what,
                d.scenario, d.runtime, d.is_same_system, d.base_system, d.base_version) AS is_mended
            FROM differing AS d LEFT JOIN better AS b ON b.what = d.what AND b.scenario <=> d.scenario
                AND b.runtime = d.runtime AND b.base_system = d.system AND b.base_version = d.version)
        WHERE is_same_system OR difference > 0 OR (difference = 0 AND base_system < system)
        ORDER BY outcome = 'worse' DESC, what = '{NOT_VALID}' DESC, what, lowest DESC, difference DESC, change,
        scenario, runtime""",
        Bars(("change", "scenario", "runtime", "outcome"), "difference", "", "lowest", "highest", "what"),
        f"no scenario or campaign that was judged on two systems or versions; {_NO_LABELS}",
        alarm=lambda row: row["outcome"] == "worse",
        grounds=Grounds(
            "SELECT what FROM regressions WHERE is_same_system",
            f"no scenario or campaign that was judged on two versions; {_NO_LABELS}",
        ),
    ),
    Question(
        "changes",
        "Since which commit, version or other label are more runs not valid, answers slower or failovers longer, with"
        " intervals that hold together with 95 %?",
        """SELECT what, label, value, coalesce(scenario, 'no scenario') AS scenario, system, runtime, first, base_runs,
        runs, base_level, level, difference, lowest, highest,
        CASE WHEN base_level > 0 THEN level / base_level END AS ratio
        FROM changes ORDER BY label <> 'commit', what, lowest DESC, value""",
        Bars(("label", "value", "scenario"), "difference", "", "lowest", "highest", "what"),
        f"no label whose later values are worse than the earlier ones, with at least {SPLIT_MIN} runs on each side",
        alarm=lambda _: True,
        grounds=Grounds(
            "SELECT what FROM splits",
            f"too few runs to compare: no label has {SPLIT_MIN} runs before one of its values and {SPLIT_MIN} since",
        ),
    ),
    Question(
        "compare",
        "How do two values of a label differ: those of `--between`, else the last two commits (or versions), with an"
        " interval of 95 % for each row (Newcombe for shares, Student's t of means for times)?",
        f"""WITH ordered AS (SELECT label, scenario, system, runtime, value, min(created) AS first FROM labelled
            GROUP BY label, scenario, system, runtime, value),
        following AS (SELECT *, lag(value) OVER (PARTITION BY label, scenario, system, runtime
                ORDER BY first) AS base_value,
            row_number() OVER (PARTITION BY label, scenario, system, runtime ORDER BY first DESC) AS place
            FROM (SELECT label, scenario, system, runtime, first, CASE WHEN count(*) = 1 THEN min(value) END AS value
                FROM ordered GROUP BY label, scenario, system, runtime, first)),
        wanted AS (SELECT DISTINCT c.label, o.scenario, o.system, o.runtime, c.base_value, c.value
            FROM compared AS c JOIN ordered AS o ON o.label = c.label AND o.value = c.value
            UNION ALL SELECT label, scenario, system, runtime, base_value, value FROM following
            WHERE place = 1 AND base_value IS NOT NULL AND NOT EXISTS (SELECT 1 FROM compared)
                AND (label = 'commit' OR (label = 'version'
                    AND NOT EXISTS (SELECT 1 FROM labelled WHERE label = 'commit'))))
        SELECT p.what, p.label, p.base_value, p.value, coalesce(p.scenario, 'no scenario') AS scenario, p.system,
        p.runtime, p.base_runs, p.runs, p.base_level, p.level, p.difference, p.lowest, p.highest,
        CASE WHEN {is_worse("p.")} THEN 'worse' WHEN p.highest < 0 THEN 'better'
            WHEN p.lowest IS NULL THEN 'too few runs' ELSE 'not shown' END AS outcome
        FROM pairs AS p JOIN wanted AS w ON w.label = p.label AND w.base_value = p.base_value AND w.value = p.value
            AND w.scenario <=> p.scenario AND w.system = p.system AND w.runtime = p.runtime
        ORDER BY outcome = 'worse' DESC, p.what, p.lowest DESC, scenario""",
        Bars(("scenario", "value", "outcome"), "difference", "", "lowest", "highest", "what"),
        "no two values of a label, one before the other, with judged runs of the same scenario: see --between",
        alarm=lambda row: row["outcome"] == "worse",
    ),
    Question(
        "trend",
        "What share of the runs was not valid, and how long did answers and failovers take, at each commit (or version,"
        " where runs have no commit)?",
        f"""SELECT label, value, min(first) AS first, coalesce(scenario, 'no scenario') AS scenario, system, runtime,
        max(runs) AS runs, {_of_level(NOT_VALID)} AS not_valid, {_of_level(LATENCY)} AS latency_ms,
        {_of_level(FAILOVER)} AS failover_ms FROM trend
        WHERE label = 'commit' OR (label = 'version' AND NOT EXISTS (SELECT 1 FROM labelled WHERE label = 'commit'))
        GROUP BY label, value, scenario, system, runtime ORDER BY scenario, system, runtime, first, value""",
        Bars(("value", "scenario", "system", "runtime"), "not_valid", SHARE),
        _NO_VERDICT,
    ),
    Question(
        "coverage",
        "In how many runs and seeds did a member enter each state of an election under each fault?",
        f"""SELECT s.state, f.fault, coalesce(sum(c.runs), 0) AS runs, coalesce(sum(c.seeds), 0) AS seeds,
        coalesce(sum(c.runs + c.seeds), 0) AS together
        FROM (SELECT posexplode(array{tuple(state.name for state in ElectionState)}) AS (place, state)) AS s
        CROSS JOIN (SELECT DISTINCT fault FROM state_coverage) AS f
        LEFT JOIN state_coverage AS c ON c.state = s.state AND c.fault = f.fault
        GROUP BY s.place, s.state, f.fault ORDER BY s.place, f.fault""",
        Heat("state", "fault", "together"),
        "no run with answers and traces, and no seed with moves of elections",
    ),
    Question(
        "campaigns",
        "How many seeds of each campaign count, and which rate of a failure do they exclude with"
        f" {1 - CHANCE_MAX:.0%}? The last campaign is first",
        """SELECT ingested, run, system, version, runtime, seeds, counted, inconclusive, unknown, invalid,
        inconclusive / seeds AS inconclusive_share, excluded_rate, processor_s_a_seed, operations
        FROM campaigns ORDER BY ingested DESC, run, system, version, runtime""",
        Stacks(
            ("ingested", *_OF, "run"),
            ("counted", "inconclusive", "unknown", "invalid"),
            "seeds",
            "seeds",
            ("follower", "down", "unknown", "invalid"),
            "runtime",
        ),
        _NO_CAMPAIGN,
    ),
    Question(
        "campaign-faults",
        "How many faults of each kind did campaigns plan, and how many of them were proved, unseen (begun, but not"
        " proved) or left out? The kind with the smallest proved share is first",
        f"""SELECT fault, system, version, runtime, count(DISTINCT run) AS campaigns, sum(seeds) AS seeds,
        {", ".join(f"sum({fate}) AS {fate}" for fate in Fate)},
        sum(proved) / sum(planned) AS proved_share
        FROM campaign_faults WHERE planned > 0 GROUP BY fault, system, version, runtime
        ORDER BY proved_share, planned DESC, fault, system, version, runtime""",
        Stacks(
            ("fault", *_OF),
            (Fate.PROVED, Fate.UNSEEN, Fate.LEFT_OUT),
            Fate.PLANNED,
            "faults",
            ("follower", "unknown", "down"),
            "runtime",
        ),
        f"{_NO_CAMPAIGN}, or none that planned a fault",
    ),
    Question(
        "failures",
        "Which runs and seeds failed alike?",
        """SELECT *, runs + seeds AS together FROM signatures ORDER BY verdict IN ('invalid', 'unreadable') DESC,
        together DESC, promise, signature""",
        Bars(("promise", "signature", "verdict"), "together", "runs and seeds"),
        "nothing that failed",
        alarm=lambda row: row["verdict"] in ("invalid", "unreadable"),
        grounds=_JUDGED,
    ),
    Question(
        "preceded-by",
        "Which failures did no fault or command precede, and which came last before the others?",
        """SELECT act, kind, promise, verdict, signature, count(*) AS failures, count(DISTINCT run) AS runs,
        percentile(after_ms, 0.5) AS after_ms, slice(array_sort(collect_set(folder)), 1, 3) AS folders
        FROM preceded JOIN ran USING (run) GROUP BY act, kind, promise, verdict, signature
        ORDER BY act = 'none' DESC, verdict = 'invalid' DESC, runs DESC, act, promise, signature""",
        Bars(("act", "promise", "verdict"), "runs", "runs"),
        "nothing that failed",
        alarm=lambda row: row["act"] == NO_FAULT and row["verdict"] == "invalid",
        grounds=_JUDGED,
    ),
    Question(
        "slow-elections",
        "Which ten elections were the slowest?",
        """SELECT e.length_ms, r.folder, e.member, r.scenario, r.system, r.version, r.runtime, e.states, r.run
        FROM slow_elections AS e JOIN ran AS r ON r.run = e.run ORDER BY e.length_ms DESC LIMIT 10""",
        Bars(("scenario", "member", "run", *_OF), "length_ms", MS),
        "no run whose members traced an election",
    ),
)
