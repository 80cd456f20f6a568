"""`upheaval explain`: how a run came to break a promise, as text or as JSON."""

import json
from typing import Final

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise, promise_named
from upheaval.checkers.verdict import Verdict
from upheaval.cli.judge_commands import ExplainOptions
from upheaval.cli.tables import table
from upheaval.errors import UsageError
from upheaval.records import RunFolder
from upheaval.report import duration, measure_run
from upheaval.report.election_drawing import in_run, steps_text
from upheaval.report.explanation import Explanation, Knowledge, explain as explanation_of, in_order
from upheaval.report.moments import Moment, Moments, beside_fault
from upheaval_chaos.exit_status import CommandStatus
from upheaval_node.suggestions import did_you_mean

_UNKNOWN: Final = "-"


def explain(options: ExplainOptions) -> int:
    """Raises `UsageError` for a run that breaks no promise, or not the one that was named."""
    run = RunFolder(options.run)
    report, moments = verify_run(run.path), Moments(run)
    broken = [finding for finding in report.findings if finding.verdict is Verdict.INVALID]
    known = {finding: moment for finding in broken if (moment := moments.of(finding)) is not None}
    broken = in_order(broken, known)
    if options.promise is not None:
        named = promise_named(options.promise)
        if named is None:
            raise UsageError(f"unknown promise {options.promise!r}{did_you_mean(options.promise, list(Promise))}")
        broken = [finding for finding in broken if finding.promise == named]
    if not broken:
        which = "breaks no promise" if options.promise is None else f"does not break {options.promise}"
        raise UsageError(f"{run.path} {which}: see `upheaval verify`")
    explanation = explanation_of(run, broken[0])
    print(json.dumps(explanation.to_fields(), indent=2) if options.json else as_text(run, explanation))
    return CommandStatus.VALID


def as_text(run: RunFolder, explanation: Explanation) -> str:
    """For people."""
    finding = explanation.finding
    lines = [
        f"broken promise: {finding.promise.sentence} [{finding.promise}]",
        f"  {finding.evidence}",
        *(f"  {error.sentence(explanation.start_ns)}" for error in finding.errors),
        _when(run, explanation),
    ]
    operation = explanation.operation
    if operation is not None:
        lines.append(f"operation: {operation}")
    if explanation.entries:
        lines.append(f"in the logs at position {explanation.position}, at the end of the run:")
    lines += [f"  member {member_id}: {entry}" for member_id, entry in explanation.entries.items()]
    if explanation.members:
        head = ["member", "runs", "role", "election", "term", "leader", "commit position", "append position"]
        lines += ["", "known by then:", table([head, *map(_row, explanation.members)])]
    if explanation.steps:
        start_ns = explanation.start_ns
        drawing = steps_text(explanation.steps, len(explanation.members), lambda step: in_run(step, start_ns))
        lines += ["", "what led there, since the last answer before it, in seconds of the run:", drawing]
    for text in filter(None, (explanation.lack, explanation.without_messages)):
        lines += ["", text]
    return "\n".join(lines)


def _when(run: RunFolder, explanation: Explanation) -> str:
    if explanation.moment_ns is None:
        return "when: the run does not show it"
    moment = Moment(explanation.moment_ns - explanation.start_ns, is_exact=True)
    beside = beside_fault(moment, measure_run(run).faults)
    last = duration(explanation.moment_ns - explanation.good_ns)
    since = "the run began" if explanation.good_ns == explanation.start_ns else "the last answer"
    who = "" if explanation.member_id is None else f" by member {explanation.member_id}"
    return ", ".join([f"when: {moment}{who}", *([beside] if beside else []), f"{last} after {since}"])


def _row(known: Knowledge) -> list[str]:
    numbers = (known.term_id, known.leader_id, known.commit_position, known.append_position)
    return [
        str(known.member_id),
        _UNKNOWN if known.runs is None else "yes" if known.runs else "no",
        known.role or _UNKNOWN,
        known.state or _UNKNOWN,
        *(_UNKNOWN if number < 0 else str(number) for number in numbers),
    ]
