"""`upheaval verify --engine spark`: the promises of `upheaval.checkers`, judged by Spark.

Joins, sorts and grouping are Spark's. Every promise ends in evidence, one row with a count and what the first violation
consists of; these rows come back to this process, which words the findings as the in-process checker does. Before them
comes back where each member's log ends, a row a member: `upheaval.checkers.positions` bounds by it what is judged. Keys
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

from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from upheaval.checkers.positions import bounds_of, finals_of
from upheaval.checkers.unchecked import unchecked
from upheaval.checkers.verdict import Report
from upheaval_pipeline import judged_events, judged_history, judged_logs, run_tables
from upheaval_pipeline.evidence import Evidence
from upheaval_pipeline.findings import findings
from upheaval_pipeline.judged_history import Witness
from upheaval_pipeline.run_tables import RunTables


def verify(spark: SparkSession, folder: Path) -> Report:
    """Judge one run. Raises `UsageError` as the in-process checker does, for a folder or line that is malformed."""
    with run_tables.of_folder(spark, folder) as run:
        return judge(run)


def verify_lake(spark: SparkSession, lake: str, run: str) -> Report:
    """Judge one run of a lake. Raises `UsageError` when it is not there, or had malformed lines."""
    return judge(run_tables.of_lake(spark, lake, run))


def judge(run: RunTables) -> Report:
    """The findings on a run, wherever its tables lie."""
    ends = judged_logs.member_ends(run.recording).persist()
    positions = {row.member: row.log_end for row in ends.select("member", "log_end").collect()}  # a row each
    manifest = run.manifest
    bounds = bounds_of(finals_of(manifest), run.aside.positions, positions, manifest.members)
    witness = Witness(run, ends, bounds.commit_position)
    parts = [
        *judged_history.bad_lines(run),
        judged_history.traffic(run),
        judged_history.faults(run),
        judged_logs.reaches(run, ends, witness.entries),
        judged_logs.missing(run),
        judged_logs.leaders(run, ends),
        judged_logs.difference(run, ends, bounds),
        judged_history.by_operation(run, witness, bounds),
        judged_history.past_commit(witness),
        judged_history.unreadable(witness),
        judged_history.results(witness),
        judged_history.real_time(witness),
        judged_history.calls(run, witness),
        judged_events.sessions(witness),
        judged_events.terms(witness),
        judged_events.clients(run, witness),
        judged_events.events(witness),
        judged_events.times(witness),
        judged_events.own_requests(run, witness),
        judged_events.longest_stall(run),
        judged_events.slow_answers(run),
    ]
    try:
        gathered = reduce(DataFrame.union, parts)
        rows = [Evidence(row.kind, row.key, row.number, row.text) for row in gathered.collect()]  # verdict rows
    finally:
        for kept in (ends, witness.joined):
            kept.unpersist()
    found = tuple(findings(run, rows, bounds))
    return Report(run.name, found, unchecked(found))
