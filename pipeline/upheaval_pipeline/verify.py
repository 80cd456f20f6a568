"""`upheaval verify --engine spark`: the promises of `upheaval.checkers`, judged by Spark.

Runs that fit into a task are judged there as a whole (`whole.py`), those of a lake when they are ingested. Of others,
joins, sorts and grouping are Spark's, for many runs at once: the run is a part of every key below. Every promise ends
in evidence, one row a run with a count and what the first violation consists of; these rows come back to this process,
which words the findings as the in-process checker does. Before them comes back where each member's log ends, a row a
member: `upheaval.checkers.evidence.positions` bounds by it what is judged. Keys
are cleared many at a time by their columns, logs by sums of the fingerprints of ranges; only what does not check out is
looked at one by one. Shared with the in-process checker is what judges one key.

| promise | columns | partition key |
|---|---|---|
| acknowledged operations are not lost | id, f, key, value, position | operation id |
| no operation is applied twice | id, position | operation id |
| the history explains the log | id, position | operation id |
| linearizable: results | id, f, key, value, result, position | key |
| linearizable: real time | position, invoke_ns, complete_ns | position range |
| logs are equal | position, digest | position |
| final positions | position, complete_ns | none: ends, what traces tell, and one operation |
| every log reaches its final position | from_position, to_position, end_position | member |
| the first three, of calls | value (digest of the payload), position | value |
| one leader a term | leadership_term_id, leader_member_id | term |
| time | type, fields, end_position | term, position range |
| sessions | type, fields, end_position | session |
| entries in their term | type, fields, end_position | none: terms are few and sent to all |
| clients in order | process, session, invoke_ns, complete_ns, position | client slot, session |
| timers, money, messages of services | type, fields, f, key, value, result | none: one state machine, in this process |
| admin commands, ends, snapshots, states, identities, backups | (files of the run, read once) | |
"""

from collections.abc import Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from upheaval.checkers.unchecked import unchecked
from upheaval.checkers.verdict import Report
from upheaval.errors import UsageError
from upheaval_pipeline import judged_events, judged_history, judged_logs, run_tables
from upheaval_pipeline.evidence import Evidence
from upheaval_pipeline.findings import findings
from upheaval_pipeline.judged_history import Witness
from upheaval_pipeline.lake import Lake
from upheaval_pipeline.reach import Reach
from upheaval_pipeline.run_tables import RUNS_OF_A_JOB, Run, RunTables
from upheaval_pipeline.whole import WHOLE_MIB, Judged, judge_each, that_fit


def verify(spark: SparkSession, folders: Sequence[Path], whole_mib: int = WHOLE_MIB) -> list[Judged]:
    """Judge runs, in their order; those with more lines than that by columns.

    Raises `UsageError` for what is no run folder, and `HarnessError` for what cannot be read.
    """
    whole = that_fit(spark, folders, whole_mib)
    found = dict(zip(whole, judge_each(spark, whole), strict=True))
    spread = [folder for folder in folders if folder not in found]
    for begin in range(0, len(spread), RUNS_OF_A_JOB):
        some = spread[begin : begin + RUNS_OF_A_JOB]
        with run_tables.of_folders(spark, some) as runs:
            found |= zip(some, judge(runs), strict=True)
    return [found[folder] for folder in folders]


def verify_lake(spark: SparkSession, lake: Lake, runs: Sequence[str], *, anew: bool = False) -> list[Judged]:
    """What this version said of runs of a lake when it ingested them, in their order.

    Others, and with `anew` all of them, are judged by columns. Raises `UsageError` when one is not there.
    """
    known = run_tables.nothing_known if anew else run_tables.reports_of_lake
    return list(run_tables.each_of_lake(spark, lake, runs, judge, known))


def evidence_of(tables: RunTables, reach: Reach, witness: Witness) -> DataFrame:
    """What there is to know of all runs."""
    parts = [
        *judged_history.bad_lines(tables),
        judged_history.traffic(tables),
        judged_history.faults(tables),
        *judged_logs.missed(reach, witness.entries),
        judged_logs.missing(tables),
        judged_logs.leaders(tables, reach),
        judged_logs.difference(tables, reach),
        judged_history.by_operation(witness, reach),
        judged_history.past_commit(witness),
        judged_history.unreadable(witness),
        judged_history.results(witness),
        judged_history.real_time(witness),
        judged_history.calls(tables, witness),
        judged_events.sessions(witness),
        judged_events.terms(witness),
        judged_events.clients(tables, witness),
        judged_events.events(witness),
        judged_events.times(witness),
        judged_events.own_requests(tables, witness),
        judged_events.longest_stalls(tables),
        judged_events.slow_answers(tables, reach),
    ]
    return reduce(DataFrame.union, parts)


def judge(tables: RunTables) -> list[Judged]:
    """What came of each run, wherever their tables lie."""
    reach = Reach(tables, judged_logs.member_ends(tables.recording).collect())  # a row each
    witness = Witness(tables, reach)
    found = [list(reach.evidence(place)) for place in range(len(tables.runs))]
    try:
        gathered = evidence_of(tables, reach, witness)
        for row in gathered.collect():  # verdict rows
            found[row.run].append(Evidence(row.kind, row.key, row.number, row.text))
    finally:
        witness.joined.unpersist()
    return [_judged(run, reach, place, rows) for place, (run, rows) in enumerate(zip(tables.runs, found, strict=True))]


def _judged(run: Run, reach: Reach, place: int, rows: Sequence[Evidence]) -> Judged:
    try:
        found = tuple(findings(run, rows, reach.bounds[place]))
    except UsageError as error:
        return error
    return Report(run.name, found, unchecked(found))
