"""The protocol trace as text and as data: order, choice, both notations, and what is no trace."""

import json
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.errors import UsageError
from upheaval.records import Choice, Manifest, RunFolder, chosen, column_lines, plain_lines, read_entries
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message
from upheaval_node.protocol_trace import Observation, Observer
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import Now

ENDPOINTS = {"a:1": 0, "b:1": 1, "c:1": 2}

# The first of the 22 messages of the documents' example, character by character.
DOCUMENTS_LINE = (
    "payload: logLeadershipTermId=-1|nextLeadershipTermId=0|nextTermBaseLogPosition=0   |nextLogPosition=-1  |"
    "leadershipTermId=0|termBaseLogPosition=0   |logPosition=0   |leaderRecordingId=-1|timestamp=1737306778533|"
    "leaderMemberId=1|logSessionId=464720373  |appVersion=1|isStartup=FALSE"
)
FIRST = cm.NewLeadershipTerm(
    log_leadership_term_id=-1,
    next_leadership_term_id=0,
    next_term_base_log_position=0,
    next_log_position=-1,
    leadership_term_id=0,
    term_base_log_position=0,
    log_position=0,
    leader_recording_id=-1,
    timestamp=1737306778533,
    leader_member_id=1,
    log_session_id=464720373,
    app_version=1,
    is_startup=False,
    commit_position=0,
)
LATER = cm.NewLeadershipTerm(
    log_leadership_term_id=2,
    next_leadership_term_id=3,
    next_term_base_log_position=5280,
    next_log_position=6496,
    leadership_term_id=3,
    term_base_log_position=5280,
    log_position=6592,
    leader_recording_id=0,
    timestamp=1737306989974,
    leader_member_id=1,
    log_session_id=-2066487224,
    app_version=1,
    is_startup=True,
    commit_position=6496,
)
CANVASS = cm.CanvassPosition(
    log_leadership_term_id=2, log_position=5280, leadership_term_id=2, follower_member_id=0, protocol_version=65536
)


class Silent:
    def emit(self, now: Now, event: str, **fields: int | str | bool | None) -> None:
        """The node's own trace is of no interest here."""


class Writer:
    """A member's protocol trace, written as a runtime does it."""

    def __init__(self, run: RunFolder, member_id: int) -> None:
        self.now = Now(1_000_000_000, 0)
        self.lines: list[str] = []
        self._path = run.member(member_id).path
        self._observer = Observer(lambda: self.now, 7, ENDPOINTS, lambda each: self._keep(each, member_id))
        self._tracer = self._observer.tracer(Silent(), "consensus")

    def _keep(self, observation: Observation, member_id: int) -> None:
        self.lines.append(observation.to_json(member_id))

    def at(self, ms: int) -> None:
        self.now = Now(1_000_000_000 + ms * 1_000_000, ms)

    def send(self, message: cm.NewLeadershipTerm | cm.CanvassPosition, peer: str) -> None:
        self._observer.on_message("consensus", "send", 108, peer, 96, cm.SCHEMA.encode(message))

    def receive(self, message: cm.NewLeadershipTerm | cm.CanvassPosition) -> None:
        self._observer.on_message("consensus", "receive", 108, "a:40000", 96, cm.SCHEMA.encode(message))

    def other(self, message: Message, stream_id: int) -> None:
        self._observer.on_message("consensus", "send", stream_id, "", 96, cm.SCHEMA.encode(message))

    def state(self, state: str) -> None:
        self._tracer.emit(self.now, TraceKind.ELECTION_STATE, state=state)

    def done(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        (self._path / "protocol.jsonl").write_text("".join(f"{line}\n" for line in self.lines), encoding="utf-8")


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "run")
    folder.create(Manifest("r", "simulated", 3, "test", 0))
    leader, follower = Writer(folder, 1), Writer(folder, 0)
    leader.state("LEADER_LOG_REPLICATION")
    leader.at(1)
    leader.send(FIRST, "a:1")
    leader.at(2)
    leader.state("LEADER_REPLAY")
    leader.state("LEADER_INIT")
    leader.send(FIRST, "c:1")
    leader.state("CLOSED")
    leader.at(5)
    leader.receive(CANVASS)
    leader.send(LATER, "a:1")
    follower.at(3)
    follower.send(CANVASS, "b:1")
    leader.done()
    follower.done()
    return folder


def lines_of(run: RunFolder, choice: Choice = Choice()) -> list[str]:  # noqa: B008 - a frozen value
    return list(plain_lines(chosen(read_entries(run), choice)))


def test_entries_of_all_members_come_in_order_of_time(run: RunFolder) -> None:
    times = [(round(ns / 1e6), entry.member_id) for ns, entry in chosen(read_entries(run), Choice())]
    assert times == [(0, 1), (1, 1), (2, 1), (2, 1), (2, 1), (2, 1), (3, 0), (5, 1), (5, 1)]


@pytest.mark.parametrize(
    ("choice", "count"),
    [
        (Choice(members=frozenset([0])), 1),
        (Choice(messages=frozenset(["NewLeadershipTerm"])), 3),
        (Choice(messages=frozenset(["CanvassPosition"])), 2),
        (Choice(from_s=0.002), 7),
        (Choice(to_s=0.001), 2),
        (Choice(members=frozenset([1]), messages=frozenset(["CanvassPosition"]), from_s=0.004, to_s=0.006), 1),
    ],
)
def test_member_message_and_time_choose(run: RunFolder, choice: Choice, count: int) -> None:
    assert len(lines_of(run, choice)) == count


def test_the_plain_view_has_every_field_and_the_state_changes(run: RunFolder) -> None:
    lines = lines_of(run)
    assert lines[0] == "   0.000000 member 1 consensus  election_state  state=LEADER_LOG_REPLICATION"
    assert lines[1].startswith(
        "   0.001000 member 1 consensus  send NewLeadershipTerm to member 0  logLeadershipTermId=-1|"
    )
    assert lines[1].endswith("|isStartup=FALSE|commitPosition=0")
    assert lines[6].endswith(
        "send CanvassPosition to member 1  "
        "logLeadershipTermId=2|logPosition=5280|leadershipTermId=2|followerMemberId=0|protocolVersion=65536"
    )
    assert "receive CanvassPosition (consensus)" in lines[7]


def test_the_seed_notation_is_that_of_the_documents(run: RunFolder) -> None:
    choice = Choice(messages=frozenset(["NewLeadershipTerm"]))
    lines = column_lines(chosen(read_entries(run), choice))
    assert lines[0] == f"member 1 in LEADER_LOG_REPLICATION, to member 0: {DOCUMENTS_LINE}"
    assert lines[1].startswith("member 1 in LEADER_REPLAY, to member 2: ")
    assert lines[2].startswith("member 1 onCanvassPosition, to member 0: ")
    assert lines[2].endswith(
        "|timestamp=1737306989974|leaderMemberId=1|logSessionId=-2066487224|appVersion=1|isStartup=TRUE"
    )
    masked = column_lines(chosen(read_entries(run), choice), masked=frozenset(["timestamp"]))
    assert "|timestamp=*|" in masked[0]


def test_several_messages_in_the_seed_notation_are_named(run: RunFolder) -> None:
    lines = column_lines(chosen(read_entries(run), Choice()))
    assert len(lines) == 4
    assert " payload: CanvassPosition logLeadershipTermId=2|" in lines[2]


def test_the_seed_notation_has_the_fields_of_the_documents_only(run: RunFolder) -> None:
    writer = Writer(run, 2)
    writer.other(cm.JoinLog(0, 96, 2, 7, 100, True, 0, False, "aeron:ipc"), 104)
    writer.other(cm.ServiceTerminationPosition(96, True), 104)
    writer.done()
    choice = Choice(members=frozenset([2]))
    assert column_lines(chosen(read_entries(run), choice)) == [
        "member 2, to service control: payload: JoinLog "
        "logPosition=0|maxLogPosition=96|memberId=2|logSessionId=7|logStreamId=100|isStartup=TRUE|role=0|logChannel=aeron:ipc",
        "member 2, to service control: payload: ServiceTerminationPosition logPosition=96",
    ]


def test_json_is_what_the_run_folder_has(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", str(run.path), "--member", "0", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["message"] == "CanvassPosition"
    assert json.loads(line)["to"] == 1
    assert line in (run.member(0).path / "protocol.jsonl").read_text()


def test_what_its_writer_did_not_finish_is_left_out_and_what_is_malformed_is_named(run: RunFolder) -> None:
    path = run.member(0).path / "protocol.jsonl"
    whole = path.read_text()
    path.write_text(whole + whole[:40])
    assert len(lines_of(run, Choice(members=frozenset([0])))) == 1
    path.write_text('{"ts":1}\n')
    with pytest.raises(UsageError, match=r"protocol.jsonl:1: "):
        lines_of(run)


@pytest.mark.parametrize(
    "line",
    [
        '{"ts":%s,"component":"c","event":"x","fields":{}}' % ("9" * 400),
        '{"ts":-1,"component":"c","event":"x","fields":{}}',
        r'{"ts":1,"component":"\ud800","event":"x","fields":{}}',
    ],
)
def test_what_cannot_be_shown_is_named(run: RunFolder, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    (run.member(0).path / "protocol.jsonl").write_text(f"{line}\n")
    assert main(["trace", str(run.path)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "protocol.jsonl:1: " in said


def test_a_time_that_is_none_is_refused(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(["trace", str(run.path), "--from", "nan"])
    assert raised.value.code == 2
    assert "expected a number of seconds, got 'nan'" in capsys.readouterr().err


def test_the_older_of_two_files_comes_first(run: RunFolder) -> None:
    path = run.member(1).path / "protocol.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    whole = lines_of(run)
    (path.parent / "protocol.1.jsonl").write_text("".join(lines[:3]))
    path.write_text("".join(lines[3:]))
    assert [line.split("  ")[0] for line in lines_of(run)] == [line.split("  ")[0] for line in whole]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--message", "Nothing"], "unknown message 'Nothing'"),
        (["--member", "3"], "unknown member 3: this run has 3 members"),
    ],
)
def test_names_that_are_none_are_said(
    run: RunFolder, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", str(run.path), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_run_without_a_protocol_trace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    RunFolder(tmp_path / "run").create(Manifest("r", "process", 1, "test", 0))
    assert main(["trace", str(tmp_path / "run")]) == 2
    assert "has no protocol trace" in capsys.readouterr().err
