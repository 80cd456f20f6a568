"""`upheaval elections`: the elections of a run as a table; one of them step by step, and as a sequence diagram."""

import json
from pathlib import Path

from upheaval.cli.judge_commands import ElectionsOptions
from upheaval.cli.parsing import newest_run
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report import duration
from upheaval.report.election_drawing import moment, sequence_text
from upheaval.report.elections import Election, elections_of, log_of, votes_of


def elections(options: ElectionsOptions) -> int:
    """Raises `UsageError` for a number that no election has."""
    run, number = _chosen(options)
    recorded = elections_of(RunFolder(run))
    if number is None:
        if options.json:
            print(json.dumps([election.to_fields() for election in recorded], indent=2))
        else:
            print(_all(recorded) if recorded else "no member of this run recorded an election")
        return 0
    if number > len(recorded):
        raise UsageError(f"unknown election {number}: this run has {len(recorded)}")
    election = recorded[number - 1]
    print(json.dumps(election.to_fields(with_steps=True), indent=2) if options.json else _one(election))
    return 0


def _chosen(options: ElectionsOptions) -> tuple[Path, int | None]:
    """The run and the number: a single number is one of the newest run, unless a folder has that name."""
    text = str(options.run)
    if options.number is None and text.isdecimal() and int(text) and not options.run.exists():
        return newest_run(), int(text)
    return options.run, options.number


def _all(recorded: list[Election]) -> str:
    rows = [["n", "at", "term", "cause", "candidate", "its log", "outcome", "took", "votes"]]
    for election in recorded:
        took = "-" if election.end_ns is None else duration(election.end_ns - election.begin_ns)
        cells = [
            str(election.number),
            duration(election.begin_ns),
            str(election.term_id),
            election.cause.partition(":")[0],
        ]
        rows.append(
            [*cells, f"member {election.candidate_id}", log_of(election), election.outcome, took, votes_of(election)]
        )
    return table(rows)


def _one(election: Election) -> str:
    why = f" ({election.why})" if election.why else ""
    head = (
        f"election {election.number}: member {election.candidate_id} is a candidate in term {election.term_id} "
        f"with a log of {log_of(election)}, by {election.cause or 'an unknown cause'}: {election.outcome}{why}"
    )
    ballots = [["member", "answer", "reason"]]
    for ballot in election.ballots.values():
        lost = "" if ballot.is_counted or ballot.ns is None else ", which the candidate did not get"
        ballots.append([str(ballot.member_id), ballot.answer, ballot.detail + lost])
    steps = [["at", "member", "what", "to", "detail"]]
    for step in election.steps:
        to = "-" if step.to is None else f"{step.to}" if step.has_arrived else f"{step.to} (lost)"
        steps.append([moment(step, election), str(step.member_id), step.what, to, step.detail])
    return "\n\n".join([head, table(ballots), table(steps), sequence_text(election)])
