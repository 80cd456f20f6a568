"""Findings that are known bugs of Aeron's, by their values; others stay what they are, and no verdict changes."""

from collections import Counter
from dataclasses import replace

import pytest

from upheaval.campaign.live import LiveOutcome, LiveSummary
from upheaval.checkers.evidence.trace_facts import ProcessLife, TraceFacts
from upheaval.checkers.known_bugs import KNOWN_SIGNATURES, SLOW_DRIVER, KnownSignature, recognised
from upheaval.checkers.promises import Promise
from upheaval.checkers.signature import (
    ALL_DOWN,
    CLIENTS_CUT,
    COMMIT_FELL,
    FOLLOWER,
    LEADER,
    MARK_IN_ACTIVATION,
    MODULE_CLOSED,
    Rule,
    Signature,
)
from upheaval.checkers.verdict import Finding, Report, Verdict
from upheaval.cli.live_campaign import as_text
from upheaval.execution.known_bugs import KNOWN_BUGS
from upheaval.records import TraceEvent

FOUND = {
    1397: (Promise.PROGRESS, Signature(Rule.LOST_CLIENTS, role=LEADER, entry=ALL_DOWN)),
    1601: (Promise.PROGRESS, Signature(Rule.SILENT_LEADER, role=LEADER, fault="pause service")),
    1671: (
        Promise.NO_UNEXPLAINED_END,
        Signature(
            Rule.UNEXPECTED_END,
            state="FOLLOWER_BALLOT",
            entry="ClusterException",
            where="ConsensusModuleAgent.onNewLeadershipTerm",
        ),
    ),
    1690: (Promise.PROGRESS, Signature(Rule.LOST_CLIENTS, role=LEADER, entry=ALL_DOWN)),
    1703: (
        Promise.SNAPSHOT_IS_REPLAY,
        Signature(Rule.MODULE_NOT_OF_LOG, entry="PendingMessageTracker.next_service_session_id"),
    ),
    1739: (Promise.STATES_AGREE, Signature(Rule.MODULES_DIFFER, entry="ConsensusModule.next_session_id")),
    1788: (Promise.CLIENTS_IN_ORDER, Signature(Rule.SESSION_GAP, role=LEADER, entry=CLIENTS_CUT)),
    1797: (
        Promise.NO_UNEXPLAINED_END,
        Signature(
            Rule.UNFORESEEN,
            LEADER,
            "LEADER_READY",
            entry="NullPointerException",
            where="ConsensusModuleAgent.onTerminationAck",
        ),
    ),
    1898: (Promise.COMMITS_KEPT, Signature(Rule.TERM_BELOW_COMMIT, role=FOLLOWER)),
    1917: (Promise.MEMBERS_JOIN, Signature(Rule.NOT_JOINED, state="FOLLOWER_CATCHUP_AWAIT")),
    1918: (Promise.STATES_AGREE, Signature(Rule.MODULES_DIFFER, entry="ConsensusModule.next_session_id")),
    2147: (Promise.COMMITS_KEPT, Signature(Rule.EARLIER_TERM_COUNTED, role=LEADER)),
    2148: (Promise.NO_UNEXPLAINED_END, Signature(Rule.REFUSED_START, entry=MARK_IN_ACTIVATION)),
    "a5d5072d5f": (Promise.MEMBERS_JOIN, Signature(Rule.NOT_JOINED, state="LEADER_INIT", entry=MODULE_CLOSED)),
    "a9d7215d74": (Promise.MEMBERS_JOIN, Signature(Rule.NOT_JOINED, state="LEADER_REPLAY", entry=COMMIT_FELL)),
    "ba9e9c1df7": (
        Promise.NO_UNEXPLAINED_END,
        Signature(
            Rule.UNFORESEEN,
            FOLLOWER,
            "FOLLOWER_CATCHUP",
            entry="NullPointerException",
            where="ConsensusModuleAgent.catchupPoll",
        ),
    ),
}
"""What runs of the track record showed."""
COMMIT = "Aeron before commit "
BY_COMMIT = "ba9e9c1df7"
BUGS = {bug.issue: bug for bug in KNOWN_BUGS}
BAD = {issue: f"aeron:{bug.bad}" for issue, bug in BUGS.items()} | {BY_COMMIT: "aeron:1.46.9"}


def finding(issue: int | str, **changes: str) -> Finding:
    promise, signature = FOUND[issue]
    return Finding(promise, Verdict.INVALID, "in any words", signature=replace(signature, **changes))


def issues(system: str, *findings: Finding) -> list[int | str | None]:
    marked = recognised(findings, [system])
    assert [each.verdict for each in marked] == [each.verdict for each in findings]
    return [each.known_issue or each.known_cause.removeprefix(COMMIT) or None for each in marked]


def test_each_bug_of_the_track_record_has_a_signature() -> None:
    issues = [known.issue for known in KNOWN_SIGNATURES]
    assert issues == [*(bug.issue for bug in KNOWN_BUGS), BY_COMMIT, SLOW_DRIVER] == [*FOUND, SLOW_DRIVER]


@pytest.mark.parametrize(
    "known", [known for known in KNOWN_SIGNATURES if known.issue in BUGS], ids=lambda known: str(known.issue)
)
def test_a_known_bug_is_recognised_where_a_version_has_it(known: KnownSignature) -> None:
    assert issues(BAD[known.issue], finding(known.issue)) == [known.issue]
    bug = BUGS[known.issue]
    alike = [other for other in KNOWN_SIGNATURES if FOUND.get(other.issue) == FOUND[known.issue]]
    for version in bug.good:
        issue = next((other.issue for other in alike if other.is_in(version)), None)
        assert issue != known.issue
        assert issues(f"aeron:{version}", finding(known.issue)) == [issue], version
    assert issues("upheaval", finding(known.issue)) == [None]


UNLIKE: list[tuple[int | str, dict[str, str]]] = [
    (1397, {"rule": Rule.SILENT_LEADER}),
    (1397, {"entry": ""}),
    (1601, {"fault": ""}),
    (1601, {"fault": "kill"}),
    (1671, {"where": "ConsensusModuleAgent.onReplayNewLeadershipTermEvent"}),
    (1671, {"entry": "ArchiveException"}),
    (1671, {"rule": Rule.UNFORESEEN}),
    (1690, {"rule": Rule.SILENT_LEADER}),
    (1690, {"entry": ""}),
    (1703, {"entry": "ClusterSession"}),
    (1739, {"entry": "ConsensusModule.next_service_session_id"}),
    (1788, {"rule": Rule.NOT_JOINED}),
    (1788, {"entry": ""}),
    (1797, {"role": FOLLOWER}),
    (1797, {"where": "ConsensusModuleAgent.onCommitPosition"}),
    (1797, {"where": ""}),
    (1898, {"role": LEADER}),
    (1917, {"state": "CANVASS"}),
    (1918, {"entry": "ClusterSession"}),
    (2147, {"rule": Rule.NO_QUORUM}),
    (2148, {"entry": ""}),
    ("a5d5072d5f", {"entry": ""}),
    ("a9d7215d74", {"state": "LEADER_INIT"}),
    ("a9d7215d74", {"entry": ""}),
    ("ba9e9c1df7", {"state": "CANVASS"}),
    ("ba9e9c1df7", {"where": "Archive.onStart"}),
    ("ba9e9c1df7", {"where": ""}),
]


@pytest.mark.parametrize(("issue", "changes"), UNLIKE)
def test_an_unlike_finding_is_no_known_bug(issue: int | str, changes: dict[str, str]) -> None:
    assert issues(BAD[issue], finding(issue, **changes)) == [None]


def test_each_bug_has_an_unlike_finding_of_its_rule_or_a_rule_of_its_own() -> None:
    rules = Counter(known.signature.rule for known in KNOWN_SIGNATURES)
    of_rule = {issue for issue, changes in UNLIKE if "rule" not in changes}
    alone = {issue for issue, (_, signature) in FOUND.items() if rules[signature.rule] == 1}
    assert set(FOUND) == of_rule | {issue for issue, _ in UNLIKE if issue in alone}


def test_a_finding_without_signature_or_of_another_promise_is_no_known_bug() -> None:
    plain = Finding(Promise.COMMITS_KEPT, Verdict.INVALID, "as Aeron issue 2147 does")
    other = replace(finding(2147), promise=Promise.VOTES_KEPT)
    assert issues(BAD[2147], plain, other) == [None, None]


def test_what_a_bug_breaks_besides_is_its_own_only_beside_it() -> None:
    lost = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "operation 7 is lost")
    assert issues(BAD[2147], lost, finding(2147)) == [2147, 2147]
    assert issues(BAD[2147], lost) == [None]
    valid = replace(lost, verdict=Verdict.VALID)
    assert issues(BAD[2147], valid, finding(2147)) == [None, 2147]


def test_without_traces_members_that_had_the_version_before_an_upgrade_count() -> None:
    systems = ["aeron:1.47.4", "aeron:1.47.4,1.51.0,1.47.4", "aeron:1.51.0"]
    (marked,) = recognised([finding(1739)], systems)
    assert marked.known_issue == 1739
    assert issues("aeron:1.53.0-SNAPSHOT@0123456789abcdef", finding(2147)) == [2147]


def test_members_of_no_version_have_no_known_bug() -> None:
    assert issues("aeron:of-my-own", finding(2147)) == [None]
    assert issues("aeron:", finding(2147)) == [None]


def test_verdict_and_json_name_the_commit_of_a_defect_without_an_issue() -> None:
    (marked,) = recognised([finding(BY_COMMIT)], [BAD[BY_COMMIT]])
    assert marked.to_lines()[-1] == "  as Aeron before commit ba9e9c1df7 does"
    fields = marked.to_fields()
    assert fields["known_cause"] == "Aeron before commit ba9e9c1df7"
    assert "known_issue" not in fields
    assert issues("aeron:1.49.3", finding(BY_COMMIT)) == [None]


def test_verdict_and_json_name_the_issue() -> None:
    (marked,) = recognised([finding(2147)], [BAD[2147]])
    assert marked.to_lines()[-1] == "  as Aeron issue 2147 does"
    fields = marked.to_fields()
    assert fields["known_issue"] == 2147
    assert fields["signature"] == {"rule": "earlier-term-counted", "role": "LEADER"}
    assert "known_issue" not in finding(2147).to_fields()


def test_a_campaign_counts_an_issue_once_a_seed() -> None:
    summary = LiveSummary()
    lost = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "operation 7 is lost")
    for seed in (53, 75):
        report = Report("run", recognised([lost, finding(2147)], [BAD[2147]]))
        summary.add(LiveOutcome(seed, report, 1.0, 10, {}))
    assert summary.to_fields()["known_issues"] == {"2147": [53, 75]}
    assert "as Aeron issue 2147 does: 53 75" in as_text(summary).splitlines()


def trace(member_id: int, *lives: tuple[int, int, int | None, str]) -> TraceFacts:
    """Of a member whose processes began, traced last, and were followed at these times, with these versions."""
    begun = [
        ProcessLife(member_id, "all", 1, begin_ns, last_ns, next_ns=next_ns, version=version)
        for begin_ns, last_ns, next_ns, version in lives
    ]
    return TraceFacts(member_id, is_there=True, lives=begun)


UPGRADED = ["aeron:1.49.3", "aeron:1.49.3,1.51.0,1.49.3", "aeron:1.51.0"]
TRACES = [
    trace(0, (0, 40, 50, "1.49.3"), (50, 90, None, "1.51.0")),
    trace(1, (0, 20, 30, "1.49.3"), (30, 90, None, "1.51.0")),
]


@pytest.mark.parametrize(
    ("members", "at_ns", "issue"),
    [((0,), 35, 1918), ((0,), 45, 1918), ((0,), 60, None), ((1,), 35, None), ((0, 1), 35, 1918), ((), 60, None)],
    ids=["before", "between two processes", "after", "upgraded first", "one of both", "no member named"],
)
def test_the_version_is_that_of_the_members_at_the_time(
    members: tuple[int, ...], at_ns: int, issue: int | None
) -> None:
    found = replace(finding(1918), members=members, when_ns=(at_ns, at_ns))
    (marked,) = recognised([found], UPGRADED, TRACES)
    assert marked.known_issue == issue


def test_a_snapshot_has_the_time_at_which_its_member_took_it() -> None:
    taken = {64: TraceEvent(9, 60, "snapshot", {}), 32: TraceEvent(8, 20, "snapshot", {})}
    traces = [replace(TRACES[0], snapshots=taken)]
    for position, issue in ((32, 1918), (64, None)):
        found = replace(finding(1918), members=(0,), position=position)
        assert recognised([found], UPGRADED, traces)[0].known_issue == issue


def test_an_end_of_which_no_trace_has_the_version_is_of_any_version() -> None:
    """The manifest of a jar that has more in it names another program's version, or none."""
    for version in ("", "2.3.0"):
        (marked,) = recognised([finding(1918)], UPGRADED, [trace(0, (0, 90, None, version))])
        assert marked.known_issue == 1918


def test_clients_keep_the_version_that_they_began_with() -> None:
    lost = replace(finding(1690), when_ns=(60, 70))
    traces = [trace(0, (0, 40, 50, "1.46.9"), (50, 90, None, "1.51.0"))]
    (marked,) = recognised([lost], ["aeron:1.46.9", "aeron:1.51.0"], traces)
    assert marked.known_issue == 1690


def test_a_known_violation_hides_no_unknown_one() -> None:
    other = replace(finding(2148, entry=""), detail="member 1 ended", members=(1,))
    refused = replace(finding(2148), detail="member 0 was refused", members=(0,))
    (marked,) = recognised([replace(refused, besides=(refused, other))], [BAD[2148]])
    assert (marked.detail, marked.members, marked.known) == ("member 1 ended", (1,), "")
    assert [one.known_issue for one in marked.besides] == [2148, 2148]
    assert marked.to_lines()[1:] == ["  besides: member 0 was refused; as Aeron issue 2148 does"] * 2
    assert [one["known_issue"] for one in marked.to_fields()["besides"]] == [2148, 2148]
    (marked,) = recognised([replace(refused, besides=(refused,))], [BAD[2148]])
    assert (marked.known_issue, len(marked.besides)) == (2148, 1)


NOT_OF_LOG = Signature(Rule.MODULE_NOT_OF_LOG, entry="ConsensusModule.next_session_id")
REPLAYED = Finding(Promise.SNAPSHOT_IS_REPLAY, Verdict.INVALID, "differs", (0,), 64, signature=NOT_OF_LOG)
STATES = Finding(Promise.STATES_AGREE, Verdict.INVALID, "differ", (0, 1), 64)
UNKNOWN = Finding(
    Promise.SNAPSHOT_IS_REPLAY,
    Verdict.INVALID,
    "misses session 1",
    (1,),
    64,
    signature=Signature(Rule.SESSION_UNKNOWN, entry="ClientSession"),
    since=40,
)
LOST = Finding(Promise.ACKNOWLEDGED_NOT_LOST, Verdict.INVALID, "operation 7 is lost", position=64)
MONEY = Finding(Promise.MONEY_CONSERVED, Verdict.INVALID, "other balances", position=64)


@pytest.mark.parametrize(
    ("cause", "effect", "is_its"),
    [
        (finding(1918), REPLAYED, True),
        (finding(1918), replace(REPLAYED, signature=None), False),
        (finding(1918), replace(REPLAYED, signature=replace(NOT_OF_LOG, entry="ConsensusModule.next_timer_id")), False),
        (replace(finding(1918), members=(1, 2)), REPLAYED, False),
        (replace(finding(1918), members=(0, 2)), REPLAYED, True),
        (UNKNOWN, STATES, True),
        (UNKNOWN, replace(STATES, members=(0, 2)), False),
        (UNKNOWN, replace(STATES, position=32), False),
        (UNKNOWN, replace(STATES, signature=Signature(Rule.MODULES_DIFFER, entry="ClusterSession")), False),
        (UNKNOWN, MONEY, True),
        (UNKNOWN, replace(MONEY, position=39), False),
        (replace(finding(2147), since=64), LOST, True),
        (replace(finding(2147), since=96), LOST, False),
        (replace(finding(2147), since=96), replace(LOST, position=None), True),
    ],
)
def test_only_what_can_follow_from_a_bug_is_its_consequence(cause: Finding, effect: Finding, is_its: bool) -> None:
    marked = recognised([effect, cause], ["aeron:1.51.0" if cause.signature != finding(1918).signature else BAD[1918]])
    assert [bool(one.known) for one in marked] == [is_its, True]
