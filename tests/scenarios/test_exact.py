"""Exact scripts: the worked example of the documents, and that a wrong message, or none, is noticed."""

from pathlib import Path

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.execution.exact_run import ExactResult, run_exact
from upheaval.records import RunFolder
from upheaval.scenario import ExactScript, exact_names, find_exact, parse_exact


def follower_offline() -> ExactScript:
    script = find_exact("follower-offline")
    assert script is not None
    return script


def run(text: str, folder: Path, seed: int = 1) -> ExactResult:
    return run_exact(parse_exact(text, name="test", where="test"), seed, folder, lambda _: None)


def finding(result: ExactResult, promise: Promise) -> tuple[Verdict, str]:
    only = result.result.report.finding(promise)
    return only.verdict, only.detail


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(2, 12))])
def test_follower_offline_is_the_worked_example_of_the_documents(tmp_path: Path, seed: int) -> None:
    done = run_exact(follower_offline(), seed, tmp_path / "run", lambda _: None)
    assert done.result.verdict is Verdict.VALID, done.result.to_json()
    assert verify_run(tmp_path / "run") == done.result.report
    assert finding(done, Promise.ENOUGH_TRAFFIC)[1].endswith("0 unknown: all that the script asks for")
    assert finding(done, Promise.AS_EXPECTED) == (
        Verdict.VALID,
        "CanvassPosition: 1 messages, field by field; RequestVote: 1 messages, field by field; "
        "NewLeadershipTerm: 22 messages, field by field",
    )
    assert [line.split("|")[6] for line in done.lines[-4:]] == ["logPosition=6496"] * 3 + ["logPosition=6592"]
    assert all("isStartup=" in line and "commitPosition" not in line for line in done.lines[2:])


def test_the_command_prints_the_messages_and_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert main(["run", "follower-offline", "--runtime", "simulated", "--dir", str(folder)]) == 0
    printed, notes = capsys.readouterr()
    assert sum("payload: logLeadershipTermId=" in line and "isStartup" in line for line in printed.splitlines()) == 22
    assert main(["trace", str(folder), "--message", "NewLeadershipTerm", "--notation", "columns"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 22
    assert set(shown) <= set(printed.splitlines())
    assert main(["replay", str(folder), "--dir", str(tmp_path / "again")]) == 0
    digest = next(line for line in notes.splitlines() if line.startswith("digest:"))
    assert digest in capsys.readouterr().err


VOTE = "payload: logLeadershipTermId=-1|logPosition=0|candidateTermId=0|candidateMemberId=2|protocolVersion"
SHORT = f"""title a start
exact members=3
start member-0,member-1,member-2 leader=member-2
client open
client fill {{fill}}
wait log 960
expect RequestVote
  member 2 in CANDIDATE_BALLOT, to member {{first}}: {VOTE}=65536
  member 2 in CANDIDATE_BALLOT, to member 1: {VOTE}={{version}}
{{more}}end
"""


def short(fill: int = 960, first: int = 0, version: int = 65536, more: str = "") -> str:
    return SHORT.format(fill=fill, first=first, version=version, more=more)


def test_messages_as_expected_are_valid(tmp_path: Path) -> None:
    assert run(short(), tmp_path).result.verdict is Verdict.VALID


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (short(version=1), "message 2 is"),
        (short(first=1), "message 1 is"),
        (
            short(more="  member 2 in CANVASS, to member 1: payload: vote=TRUE\n"),
            "2 messages were sent, 3 were expected",
        ),
    ],
    ids=["field", "receiver", "missing"],
)
def test_any_other_message_is_a_broken_promise(tmp_path: Path, text: str, reason: str) -> None:
    done = run(text, tmp_path)
    verdict, detail = finding(done, Promise.AS_EXPECTED)
    assert verdict is Verdict.INVALID
    assert reason in detail
    assert done.result.verdict is Verdict.INVALID
    assert verify_run(tmp_path) == done.result.report
    assert main(["verify", str(tmp_path)]) == 1


def test_a_vote_is_awaited_in_the_notation_of_scenarios(tmp_path: Path) -> None:
    text = short().replace("client open", "wait sent Vote from=member-0 to=member-2 vote=true\nclient open")
    assert run(text, tmp_path).result.verdict is Verdict.VALID


def test_a_log_ends_nowhere_while_no_member_runs(tmp_path: Path) -> None:
    text = short().replace("expect", "kill member-0,member-1,member-2\nwait log 999999\nexpect", 1)
    assert "log that ends at 999999" in finding(run(text, tmp_path), Promise.RUN_ENDED)[1]


def test_messages_that_no_protocol_trace_shows_are_unknown(tmp_path: Path) -> None:
    run(short(), tmp_path)
    RunFolder(tmp_path).member(2).protocol_files()[0].unlink()
    found = verify_run(tmp_path).finding(Promise.AS_EXPECTED)
    assert (found.verdict, found.detail) == (Verdict.UNKNOWN, "the protocol trace of member 2 is missing")


def test_a_script_that_sends_nothing_has_too_little_traffic(tmp_path: Path) -> None:
    text = "\n".join(line for line in short().splitlines() if not line.startswith(("client", "wait")))
    done = run(text.replace("expect", "wait follows member-1\nexpect"), tmp_path)
    assert finding(done, Promise.ENOUGH_TRAFFIC)[0] is Verdict.UNKNOWN
    assert done.result.verdict is Verdict.UNKNOWN


def test_a_script_that_does_not_get_to_its_end_is_unknown(tmp_path: Path) -> None:
    done = run(short(fill=928), tmp_path)
    assert done.result.verdict is Verdict.UNKNOWN
    assert "log that ends at 960" in finding(done, Promise.RUN_ENDED)[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("begin", "test:1:1: unknown statement 'begin'"),
        ("kill member-7", "test:1:6: unknown member-7: this cluster has 3 members"),
        (
            "kill membre-1",
            "test:1:6: unknown target 'membre-1': use member-N; did you mean 'member-1'?",
        ),
        (
            "wait sent NewLeadershipTrem from=member-0 to=member-1",
            "test:1:11: unknown message 'NewLeadershipTrem': use one of CanvassPosition, RequestVote, Vote, NewL",
        ),
        (
            "wait sent Vote from=member-0 to=member-1 candidateTerm=1",
            "test:1:42: unknown option 'candidateTerm': use one of from, to, candidateTermId, ",
        ),
        (
            "expect Vote mask=vote,candidateTermID\nend",
            "test:1:18: unknown field 'candidateTermID': use one of candidateTermId, ",
        ),
        ("kill member-²", "test:1:6: unknown target 'member-²'"),
        (f"client fill {'9' * 5000}", "test:1:13: position must be a number"),
        ("client fill x", "test:1:13: position must be a number from 1 to 1000000000, not 'x'"),
        ("start member-0 follower=1", "test:1:16: unknown option 'follower': use one of leader"),
        ("wait sent Nothing from=member-0 to=member-1", "test:1:11: unknown message 'Nothing'"),
        ("wait sent Vote from=member-1 to=member-1", "test:1:30: member-1 sends no message to itself"),
        (
            "wait sent Vote from=member-1 to=member-0 candidateMemberId=9",
            "test:1:42: candidateMemberId: unknown member 9: this cluster has 3 members",
        ),
        ("wait sent Vote to=member-1", "test:1:16: write from=member-N and to=member-N"),
        ("expect Vote\n a line", "test:1:8: the expected messages are not followed by `end`"),
        ("expect Vote mask\nend", "test:1:13: option mask needs a value: mask=VALUE"),
        ("promise everything", "test:1:9: unknown promise 'everything'"),
        ("client open now", "test:1:13: unexpected 'now'"),
        ("exact members=0", "test:1:7: members must be a number from 1"),
        ("exact members=10", "test:1:7: a cluster has 1 to 9 members, not 10"),
        ("title t", "test:1:1: the script expects no message"),
    ],
)
def test_errors_name_the_line(wrong: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_exact(wrong, name="test", where="test")
    assert str(error.value).startswith(message)


def test_every_script_of_the_library_can_be_read() -> None:
    assert "follower-offline" in exact_names()
    assert all(find_exact(name) is not None for name in exact_names())


def test_exact_scripts_run_nowhere_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "follower-offline", "--runtime", "process", "--dir", str(tmp_path / "run")]) == 2
    assert "runs on the simulated runtime" in capsys.readouterr().err


def test_a_member_that_does_not_run_is_not_killed(tmp_path: Path) -> None:
    script = "title x\nexact members=3\nkill member-0\nexpect Vote\nend\n"
    judged = finding(run(script, tmp_path / "run"), Promise.RUN_ENDED)
    assert judged == (Verdict.UNKNOWN, "member 0 is not running: nothing to kill")
    assert list(RunFolder(tmp_path / "run").read_faults()) == []


def test_no_member_is_named_twice() -> None:
    with pytest.raises(UsageError, match=r"3:15: member 1 is named twice"):
        parse_exact("title x\nexact members=3\nkill member-1,member-1\nexpect Vote\nend\n", name="x", where="x")
