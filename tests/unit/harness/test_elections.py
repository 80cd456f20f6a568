"""Elections as traces tell them: every answer to a candidacy with its reason, what came of each, table and diagram."""

import json
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.cli.report import write_report
from upheaval.records import Json, Manifest, RunFolder
from upheaval.report.elections import Answer, Outcome, elections_of

S = 10**9


class Traces:
    """What members trace, with the fields that elections are read from."""

    def __init__(self, run: RunFolder, members: int) -> None:
        self.run = run
        self.lines: list[list[dict[str, Json]]] = [[] for _ in range(members)]
        for member_id in range(members):
            self.event(0, member_id, "process-start", component="all")

    def event(self, ms: float, member_id: int, name: str, **fields: Json) -> None:
        line: dict[str, Json] = {"ts": S + int(ms * 10**6), "epoch_ms": 0, "component": "all", "pid": 1, "event": name}
        self.lines[member_id].append(line | fields)

    def state(self, ms: float, member_id: int, state: str, term: int, reason: str = "", log: int = 100) -> None:
        fields = {"candidate_term_id": term, "log_leadership_term_id": 0, "append_position": log, "reason": reason}
        self.event(ms, member_id, "election_state", state=state, **fields)

    def asks(self, ms: float, candidate: int, term: int, *voters: int, log: int = 100, reach: bool = True) -> None:
        fields = {"candidate_term_id": term, "candidate_member_id": candidate, "message": "RequestVote"}
        log_of: dict[str, Json] = {"log_leadership_term_id": 0, "log_position": log}
        for voter in voters:
            self.event(ms, candidate, "send", to=voter, **fields, **log_of)
            if reach:
                self.event(ms + 0.1, voter, "receive", **fields, **log_of)

    def answers(
        self, ms: float, voter: int, candidate: int, term: int, *, vote: bool, log: int = 100, reach: bool = True
    ) -> None:
        fields: dict[str, Json] = {"candidate_term_id": term, "candidate_member_id": candidate, "message": "Vote"}
        fields |= {"follower_member_id": voter, "vote": vote, "log_leadership_term_id": 0, "log_position": log}
        self.event(ms, voter, "send", to=candidate, **fields)
        if reach:
            self.event(ms + 0.1, candidate, "receive", **fields)

    def write(self) -> RunFolder:
        for member_id, lines in enumerate(self.lines):
            folder = self.run.member(member_id)
            folder.path.mkdir(exist_ok=True)
            folder.trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
        return self.run


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    run = RunFolder(tmp_path / "run")
    run.create(Manifest("run-1", "process", 5, "test", 0))
    return Traces(run, 5)


@pytest.fixture
def run(traces: Traces) -> RunFolder:
    """Member 0 runs for term 1, in vain; member 1 for term 2, which it wins; member 3 dies as a candidate."""
    for member_id, reason in ((0, "leader heartbeat timeout"), (1, "node started"), (2, "node started")):
        traces.state(1, member_id, "INIT", 0, reason)
        traces.state(2, member_id, "CANVASS", 0)
    traces.state(10, 2, "CANDIDATE_BALLOT", 1)
    traces.state(10, 0, "CANDIDATE_BALLOT", 1)
    traces.asks(11, 0, 1, 1, 2, 3)
    traces.asks(11, 0, 1, 4, reach=False)
    traces.answers(12, 1, 0, 1, vote=False, log=200)
    traces.answers(12, 2, 0, 1, vote=False)
    traces.state(20, 0, "CANVASS", 1, "failed to gather a quorum")
    traces.state(20, 1, "CANDIDATE_BALLOT", 2, log=200)
    traces.asks(21, 1, 2, 0, 2, 3, 4, log=200)
    traces.answers(22, 0, 1, 2, vote=True)
    traces.answers(22, 2, 1, 2, vote=True, reach=False)
    traces.answers(22, 3, 1, 2, vote=True)
    traces.answers(22, 4, 1, 2, vote=True)
    traces.state(30, 1, "LEADER_LOG_REPLICATION", 2, "quorum leader")
    traces.state(31, 1, "LEADER_INIT", 2)
    traces.state(32, 1, "CLOSED", 2)
    traces.state(40, 3, "INIT", 2, "leader heartbeat timeout")
    traces.state(41, 3, "CANDIDATE_BALLOT", 2)
    traces.asks(42, 3, 2, 4)
    traces.answers(43, 4, 3, 2, vote=False)
    traces.asks(43, 3, 2, 1)
    traces.state(43.5, 0, "INIT", 7)
    traces.asks(44, 3, 2, 0)
    traces.answers(45, 0, 3, 2, vote=False)
    traces.event(50, 3, "process-start", component="all")
    return traces.write()


def test_every_answer_has_its_reason(run: RunFolder) -> None:
    first, other, second, third = elections_of(run)
    assert [(each.number, each.candidate_id, each.term_id) for each in (first, other, second, third)] == [
        (1, 0, 1),
        (2, 2, 1),
        (3, 1, 2),
        (4, 3, 2),
    ]
    assert {member: ballot.answer for member, ballot in first.ballots.items()} == {
        0: Answer.OWN,
        1: Answer.BETTER_LOG,
        2: Answer.HAD_VOTED,
        3: Answer.SILENT,
        4: Answer.UNREACHED,
    }
    assert first.ballots[1].detail == "refused: its log has term 0 at 200, the candidate's term 0 at 100"
    assert first.ballots[2].detail == "refused: it stood itself in term 1"
    assert third.ballots[4].detail == "refused: it had voted for member 1 in term 2"
    assert (third.ballots[0].answer, third.ballots[1].answer) == (Answer.HAD_VOTED, Answer.SILENT)


def test_a_later_term_is_a_reason(traces: Traces) -> None:
    traces.state(1, 1, "INIT", 7, "node started")
    traces.state(2, 0, "CANDIDATE_BALLOT", 3)
    traces.asks(3, 0, 3, 1)
    traces.answers(4, 1, 0, 3, vote=False)
    (election,) = elections_of(traces.write())
    assert election.ballots[1].answer is Answer.LATER_TERM
    assert election.ballots[1].detail == "refused: it was in term 7 already"


def test_what_came_of_each_and_when(run: RunFolder) -> None:
    first, _, second, third = elections_of(run)
    told = [(each.outcome, each.why, each.cause, each.begin_ns, each.end_ns) for each in (first, second, third)]
    ms = 10**6
    assert told == [
        (Outcome.LOST, "failed to gather a quorum", "leader heartbeat timeout", ms, 20 * ms),
        (Outcome.LEADS, "", "node started", ms, 32 * ms),
        (Outcome.LOST, "its process ended", "leader heartbeat timeout", 40 * ms, 50 * ms),
    ]
    # A vote that the candidate did not get is none.
    assert second.voters == [0, 1, 3, 4]


def test_a_member_that_was_elected_and_did_not_serve(traces: Traces) -> None:
    traces.state(1, 0, "INIT", 0, "node started")
    traces.state(2, 0, "LEADER_LOG_REPLICATION", 0)
    traces.state(3, 0, "INIT", 0, "a later term was seen")
    (election,) = elections_of(traces.write())
    assert (election.outcome, election.why, election.end_ns) == (Outcome.ELECTED, "a later term was seen", 3 * 10**6)
    traces.state(4, 0, "CANDIDATE_BALLOT", 1)
    assert [each.outcome for each in elections_of(traces.write())] == [Outcome.ELECTED, Outcome.OPEN]


def test_the_table_and_one_election_as_a_diagram(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elections", str(run.path)]) == 0
    rows = capsys.readouterr().out.splitlines()
    assert len(rows) == 6
    assert "1 of 5: 0; 1 refused (log position); 2 refused (already voted); 3 no answer; 4 not reached" in rows[2]
    assert "4 of 5: 0, 1, 3, 4; 2 granted, not received" in rows[4]
    assert main(["elections", str(run.path), "1"]) == 0
    text = capsys.readouterr().out
    assert "refused: its log has term 0 at 200, the candidate's term 0 at 100" in text
    diagram = text[text.rindex("member 0  ") :].splitlines()
    (asked,) = [line for line in diagram if "RequestVote" in line and line.count("|") == 4 and ">|" in line]
    assert asked.index("RequestVote") < asked.index(">")
    (lost,) = [line for line in diagram if "RequestVote" in line and "x|" in line]
    assert lost.endswith("x|")
    (refused,) = [line for line in diagram if "log position" in line]
    assert "|<" in refused
    assert refused.startswith("  +11.000 ms")


def test_as_json(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elections", str(run.path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(each["number"], each["outcome"]) for each in found] == [
        (1, "lost"),
        (2, "open at the end"),
        (3, "leads"),
        (4, "lost"),
    ]
    assert "steps" not in found[0]
    assert main(["elections", str(run.path), "3", "--json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert [each["answer"] for each in one["ballots"]] == ["granted", "own", "granted", "granted", "granted"]
    assert {"RequestVote", "Vote", "LEADER_INIT"} <= {step["what"] for step in one["steps"]}


def test_unknown_elections_and_none(run: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["elections", str(run.path), "5"]) == 2
    assert capsys.readouterr().err == "upheaval: unknown election 5: this run has 4\n"
    with pytest.raises(SystemExit, match="2"):
        main(["elections", str(run.path), "0"])
    empty = RunFolder(tmp_path / "empty")
    empty.create(Manifest("run-2", "process", 3, "test", 0))
    capsys.readouterr()
    assert main(["elections", str(empty.path)]) == 0
    assert capsys.readouterr().out == "no member of this run recorded an election\n"


def test_the_page_has_each_with_a_link_to_its_picture(run: RunFolder) -> None:
    page = write_report(run.path).read_text()
    for number in (1, 2, 3, 4):
        assert page.count(f'<a href="#election-{number}">') == page.count(f'<div id="election-{number}"><svg') == 1
    picture = page[page.index('<div id="election-1">') : page.index('<div id="election-2">')]
    for words in ("refused: log position", "refused: already voted", "RequestVote term 1 (lost)", "CANDIDATE_BALLOT"):
        assert words in picture
