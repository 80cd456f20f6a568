"""The signature of clients that a leader never hears again: whether all members had been down before."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from upheaval.checkers.evidence.trace_facts import facts_of_members
from upheaval.checkers.history.columns import History
from upheaval.checkers.known_bugs import recognised
from upheaval.checkers.liveness.progress import check_progress
from upheaval.checkers.signature import ALL_DOWN, LEADER, Rule, Signature
from upheaval.checkers.verdict import Finding, Verdict
from upheaval.records import Function, Json, Manifest, Operation, Outcome, RunFolder

S = 10**9
Trace = list[dict[str, Json]]


def serves(second: int, leader: int, member_id: int, *, until: int, ends: bool = False) -> Trace:
    """A process that serves clients from that second on."""
    state = {"state": "CLOSED", "leader_member_id": leader}
    events: Trace = [
        {"ts": second * S, "event": "process-start"},
        {"ts": (second + 1) * S, "event": "election_state", **state},
        {"ts": until * S, "event": "process-end", "status": 0} if ends else {"ts": until * S, "event": "role"},
    ]
    return [{**event, "component": "all", "member_id": member_id} for event in events]


def result_of(path: Path, *traces: Trace, silent_from: int = 20, full: Sequence[tuple[int, int]] = ()) -> Finding:
    """Of clients that one answer reaches, and that then ask in vain each second."""
    run = RunFolder(path)
    run.create(Manifest("run-1", "process", len(traces), "test", 0, system="aeron:1.46.9"))
    for member_id, events in enumerate(traces):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in events))
    answered = Operation(0, 0, Function.READ, "k", None, 3 * S, 4 * S, Outcome.OK, None, 64, 7)
    silent = [
        Operation(second, 0, Function.READ, "k", None, second * S, None, Outcome.UNKNOWN, None, None, 7)
        for second in range(silent_from, 200)
    ]
    facts = facts_of_members(run, len(traces))
    history = History.of([answered, *silent])
    (result,) = check_progress(run, run.read_manifest(), facts, history, full_times=lambda: full)
    assert isinstance(result, Finding)
    return result


@pytest.mark.parametrize("ends", [True, False], ids=["shut down", "killed"])
@pytest.mark.parametrize("members", [1, 3])
def test_clients_that_are_lost_after_all_members_were_down_are_those_of_a_known_bug(
    members: int, ends: bool, tmp_path: Path
) -> None:
    traces = [
        [*serves(1, 0, member_id, until=6 + member_id, ends=ends), *serves(10 + member_id, 0, member_id, until=250)]
        for member_id in range(members)
    ]
    finding = result_of(tmp_path, *traces)
    assert finding.verdict is Verdict.INVALID
    assert finding.signature == Signature(Rule.LOST_CLIENTS, LEADER, entry=ALL_DOWN)
    assert recognised([finding], ["aeron:1.46.9"])[0].known_issue == 1690
    assert finding.when_ns is not None


@pytest.mark.parametrize("until", [250, 10], ids=["others ran on", "one after the other"])
def test_clients_that_do_not_find_the_next_leader_are_those_of_no_known_bug(until: int, tmp_path: Path) -> None:
    killed = [*serves(1, 0, 0, until=6), *serves(8, 1, 0, until=250)]
    goes_on = [serves(1, 0, member_id, until=until) for member_id in (1, 2)]
    again = [serves(12 + index, 1, 1 + index, until=250) for index in range(2)] if until < 250 else [[], []]
    leads: dict[str, Json] = {"event": "election_state", "state": "CLOSED", "leader_member_id": 1, "component": "all"}
    others = [
        [*before[:2], {**leads, "ts": 7 * S}, *before[2:], *after] for before, after in zip(goes_on, again, strict=True)
    ]
    finding = result_of(tmp_path, killed, *others)
    assert finding.verdict is Verdict.INVALID
    assert finding.signature == Signature(Rule.LOST_CLIENTS, LEADER)
    assert recognised([finding], ["aeron:1.46.9"]) == (finding,)


@pytest.mark.parametrize(
    ("full", "verdict"),
    [
        ((0, 250), Verdict.VALID),
        ((30, 180), Verdict.VALID),
        ((20, 100), Verdict.INVALID),
        ((220, 250), Verdict.INVALID),
    ],
)
def test_a_cluster_that_has_all_its_sessions_loses_no_client(
    full: tuple[int, int], verdict: Verdict, tmp_path: Path
) -> None:
    """Clients asked from 20 s to 200 s, and need less than a minute to find a leader."""
    traces = [[*serves(1, 0, 0, until=6), *serves(10, 0, 0, until=250)]]
    since, until = full
    assert result_of(tmp_path, *traces, full=[(since * S, until * S)]).verdict is verdict
