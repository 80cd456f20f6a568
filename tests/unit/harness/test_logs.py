"""`upheaval logs`: members, services and what processes printed, by time, level and member."""

import json
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.records import Json, Manifest, RunFolder
from upheaval.report.logs import last_lines, read_logs

START_MS = 1_700_000_000_000


def event(ms: int, name: str, **fields: Json) -> dict[str, Json]:
    return {"ts": ms * 10**6, "epoch_ms": START_MS + ms, "component": "all", "pid": 1, "event": name, **fields}


RAISED = {
    "callback": "on_session_message",
    "error": "KeyError: 5",
    "where": "locks.py:17 in free",
    "count": 1,
    "traceback": 'Traceback ..\n  File "locks.py", line 17, in free\nKeyError: 5\n',
}


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path)
    run.create(Manifest("run-1", "process", 2, "test", 0))
    traces = (
        [
            event(1, "process-start", version="1"),
            event(4, "send", message="CommitPosition"),
            event(5, "log", level="warning", logger="locks", text="lock 7 is taken", traceback=None),
            event(7, "service-raised", **RAISED),
        ],
        [event(2, "role", old="FOLLOWER", new="LEADER"), event(6, "error", kind="session", text="no room")],
    )
    for member_id, lines in enumerate(traces):
        run.member(member_id).path.mkdir()
        run.member(member_id).trace.write_text("".join(json.dumps(each) + "\n" for each in lines))
    (run.member(1).path / "all.log").write_text("a line without a time\n")
    return run


def test_all_that_was_said_is_in_the_order_of_its_time(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(run.path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    said = [line.split(None, 4)[-1] for line in lines if not line.startswith("    ")]
    assert said == [
        "a line without a time",
        "process-start version=1",
        "role old=FOLLOWER new=LEADER",
        "locks: lock 7 is taken",
        "session: no room",
        "on_session_message raised KeyError: 5, at locks.py:17 in free",
    ]
    assert lines[1].split()[:3] == ["2023-11-14T22:13:20.001Z", "info", "member-0"]
    assert lines[-2:] == ['      File "locks.py", line 17, in free', "    KeyError: 5"]


def test_levels_and_members_are_chosen(run: RunFolder) -> None:
    assert [line.level for line in read_logs(run, level="warning")] == ["warning", "error", "error"]
    assert [line.owner for line in read_logs(run, [0], "error")] == ["member-0"]


def test_the_last_lines_are_those_that_are_not_alike_in_every_run(run: RunFolder) -> None:
    assert [(line.owner, line.text.partition(":")[0]) for line in last_lines(run, 2)] == [
        ("member-0", "locks"),
        ("member-0", "on_session_message raised KeyError"),
        ("member-1", "a line without a time"),
        ("member-1", "session"),
    ]


def test_json_has_an_object_a_line(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(run.path), "--member", "1", "--level", "error", "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line) == {
        "epoch_ms": START_MS + 6,
        "owner": "member-1",
        "component": "all",
        "level": "error",
        "text": "session: no room",
    }


def test_an_unknown_member_is_refused(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(run.path), "--member", "2"]) == 2
    assert "unknown member 2: this run has 2 members" in capsys.readouterr().err
