"""`upheaval elections`: the elections of a run as a table; one of them step by step, and as a sequence diagram."""

import json

from upheaval.cli.judge_commands import ElectionsOptions
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report import duration
from upheaval.report.election_drawing import moment, sequence_text
from upheaval.report.elections import Election, elections_of, log_of, votes_of


def elections(options: ElectionsOptions) -> int:
    """Raises `UsageError` for a number that no election has."""
    found = elections_of(RunFolder(options.run))
    if options.number is None:
        if options.json:
            print(json.dumps([each.to_fields() for each in found], indent=2))
        else:
            print(_all(found) if found else "no member of this run told of an election")
        return 0
    if options.number > len(found):
        raise UsageError(f"unknown election {options.number}: this run has {len(found)}")
    election = found[options.number - 1]
    print(json.dumps(election.to_fields(with_steps=True), indent=2) if options.json else _one(election))
    return 0


def _all(found: list[Election]) -> str:
    rows = [["n", "at", "term", "cause", "candidate", "its log", "outcome", "took", "votes"]]
    for each in found:
        took = "-" if each.end_ns is None else duration(each.end_ns - each.begin_ns)
        cells = [str(each.number), duration(each.begin_ns), str(each.term_id), each.cause.partition(":")[0]]
        rows.append([*cells, f"member {each.candidate_id}", log_of(each), each.outcome, took, votes_of(each)])
    return table(rows)


def _one(election: Election) -> str:
    why = f" ({election.why})" if election.why else ""
    head = (
        f"election {election.number}: member {election.candidate_id} stands for term {election.term_id} with a log of "
        f"{log_of(election)}, by {election.cause or 'an unknown cause'}: {election.outcome}{why}"
    )
    ballots = [["member", "answer", "reason"]]
    for each in election.ballots.values():
        lost = "" if each.is_counted or each.ns is None else ", which the candidate did not get"
        ballots.append([str(each.member_id), each.answer, each.detail + lost])
    steps = [["at", "member", "what", "to", "detail"]]
    for step in election.steps:
        to = "-" if step.to is None else f"{step.to}" if step.has_arrived else f"{step.to} (lost)"
        steps.append([moment(step, election), str(step.member_id), step.what, to, step.detail])
    return "\n\n".join([head, table(ballots), table(steps), sequence_text(election)])
