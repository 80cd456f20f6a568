"""Forged run folders: copies, moved positions, outcomes, and the command."""

import json
import shutil
import struct
from dataclasses import replace
from pathlib import Path

import pytest

import tamper_table
from support.bad_runs import copy_of_good_run
from support.built_runs import good_run
from upheaval.checkers.evidence.log_messages import is_session_message
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import Function, RunFolder, encode_operation
from upheaval.tamper.edit import edit
from upheaval.tamper.history_edits import answered
from upheaval.tamper.log_change import PAYLOAD, change_logs, place_of_operation
from upheaval.tamper.log_edits import the_next_leader_closes_all_sessions
from upheaval.tamper.recordings import Entry
from upheaval.tamper.run_copy import HISTORY, Lacking, RunCopy, copy_run
from upheaval.tamper.table import EDITS
from upheaval.tamper.trial import Outcome, Score, Trial, try_edit, try_edits

SCENARIO = "snapshot-and-restart"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    copy_of_good_run(SCENARIO, folder)
    return folder


def _silent(_: str) -> None:
    pass


def _digests(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_first_operation_moves_into_the_new_session_with_all_of_its_term(tmp_path: Path) -> None:
    """Also when its id is 0."""
    count = 8
    run = good_run(count)
    # The second half of the log is of the second term: its ids begin at 0 here.
    ids = [(number + count // 2) % count for number in range(count)]
    run.operations = [replace(each, id=ids[each.id], session=1) for each in run.operations]
    run.payloads = [[_with_id(payload, ids) for payload in payloads] for payloads in run.payloads]
    run.write(tmp_path / "run").controls_file.unlink()
    copy = copy_run(tmp_path / "run", tmp_path / "copy")
    the_next_leader_closes_all_sessions(copy)
    assert {line["id"]: line["session"] for line in copy.lines(HISTORY)} == {
        number: 2 if number < count // 2 else 1 for number in range(count)
    }


def _with_id(payload: bytes, ids: list[int]) -> bytes:
    """The message with the id in `ids` of its operation, if it is a client's."""
    if not is_session_message(payload):
        return payload
    (number,) = struct.unpack_from("<q", payload, PAYLOAD)
    return payload[:PAYLOAD] + struct.pack("<q", ids[number]) + payload[PAYLOAD + 8 :]


# --- copies ---


def test_a_copy_has_the_same_bytes_and_is_valid_once_it_is_sealed_anew(good: Path, tmp_path: Path) -> None:
    copy = copy_run(good, tmp_path)
    assert _digests(tmp_path) == _digests(good)
    copy.seal_anew()
    assert verify_run(tmp_path).verdict is Verdict.VALID


def test_what_moves_in_the_log_moves_in_all_files(good: Path, tmp_path: Path) -> None:
    """An operation that a client could have sent is added in the middle: the run stays valid, snapshots and all."""
    copy = copy_run(good, tmp_path)
    before = verify_run(tmp_path)
    line = answered(copy.lines(HISTORY))
    new_id = max(each["id"] for each in copy.lines(HISTORY)) + 1
    end = RunFolder(good).read_manifest().converge
    payload = encode_operation(new_id, Function.READ, "r0", None)

    def added(entries: list[Entry]) -> list[Entry]:
        at = place_of_operation(entries, line)
        entry = entries[at].copy(bytes(entries[at].message[:PAYLOAD]) + payload)
        return [*entries[: at + 1], entry, *entries[at + 1 :]]

    change_logs(copy, added)
    with copy.changing(HISTORY) as lines:
        asked = {"id": new_id, "process": new_id, "f": "read", "key": "r0", "value": None}
        times = {"invoke_ns": line["invoke_ns"] + 1, "complete_ns": None, "session": line["session"]}
        lines.append({**asked, **times, "outcome": "unknown", "result": None, "position": None})
    copy.seal_anew()
    report = verify_run(tmp_path)
    assert report.verdict is Verdict.VALID, report
    assert {finding.promise for finding in report.findings} == {finding.promise for finding in before.findings}
    moved = RunFolder(tmp_path).read_manifest().converge
    assert end is not None
    assert moved is not None
    assert moved.members[0].commit_position > end.members[0].commit_position


# --- trials ---


def an_edit_that_changes_nothing(run: RunCopy) -> None:
    """Nothing."""
    assert run.members


def an_edit_that_breaks_an_unnamed_promise(run: RunCopy) -> None:
    """The converge phase."""
    with run.manifest() as manifest:
        manifest["converge"] = None


def an_edit_of_what_is_not_there(run: RunCopy) -> None:
    """A thing."""
    raise Lacking(f"no thing in {len(run.members)} members")


def an_edit_that_leaves_a_malformed_file(run: RunCopy) -> None:
    """A line of the history."""
    with run.changing(HISTORY) as lines:
        lines[0]["outcome"] = "perhaps"


def test_what_no_promise_notices_is_valid_although_wrong(good: Path) -> None:
    assert try_edit(good, edit(an_edit_that_changes_nothing, Promise.LINEARIZABLE)).outcome is Outcome.WRONG


def test_unknown_counts_as_noticed_only_for_a_promise_that_the_edit_names(good: Path) -> None:
    named = try_edit(good, edit(an_edit_that_breaks_an_unnamed_promise, Promise.RUN_CONVERGED))
    assert named.outcome is Outcome.NOTICED
    assert named.finding is not None
    assert named.finding.promise is Promise.RUN_CONVERGED
    other = try_edit(good, edit(an_edit_that_breaks_an_unnamed_promise, Promise.VOTES_KEPT))
    assert other.outcome is Outcome.UNKNOWN


def test_an_edit_without_its_evidence_does_not_apply_and_says_why(good: Path) -> None:
    trial = try_edit(good, edit(an_edit_of_what_is_not_there, Promise.LINEARIZABLE))
    assert (trial.outcome, trial.why) == (Outcome.DOES_NOT_APPLY, "no thing in 3 members")


def test_a_malformed_file_is_noticed_with_its_line(good: Path) -> None:
    trial = try_edit(good, edit(an_edit_that_leaves_a_malformed_file, Promise.LINEARIZABLE))
    assert trial.outcome is Outcome.NOTICED
    assert trial.why.startswith("refused: history.jsonl:1: ")


def test_edits_are_tried_on_the_first_run_that_has_what_they_change_or_on_every_one(good: Path) -> None:
    edits = [edit(an_edit_that_changes_nothing, Promise.LINEARIZABLE), EDITS[0]]
    once = list(try_edits([good, good], edits, _silent))
    assert [trial.runs for trial in once] == [1, 1]
    everywhere = list(try_edits([good, good], edits, _silent, everywhere=True))
    assert [trial.runs for trial in everywhere] == [2, 2]
    assert [trial.outcome for trial in everywhere] == [Outcome.WRONG, Outcome.NOTICED]


def test_a_run_is_not_changed_by_trials(good: Path) -> None:
    before = _digests(good)
    list(try_edits([good], [EDITS[0], EDITS[-1]], _silent))
    assert _digests(good) == before


@pytest.mark.parametrize(
    ("outcomes", "status"),
    [
        ([Outcome.NOTICED, Outcome.WRONG], 1),
        ([Outcome.NOTICED, Outcome.UNKNOWN, Outcome.DOES_NOT_APPLY], 0),
        ([Outcome.DOES_NOT_APPLY], 3),
    ],
)
def test_the_exit_status_is_that_of_the_score(outcomes: list[Outcome], status: int) -> None:
    assert Score.of([Trial(EDITS[0], outcome) for outcome in outcomes]).exit_status == status


# --- the set ---


def test_the_set_has_at_least_a_hundred_edits_with_names_of_their_own() -> None:
    assert len({each.name for each in EDITS}) == len(EDITS) >= 100
    assert all(each.promises and each.forges for each in EDITS)


def test_the_page_has_all_edits() -> None:
    """Their outcomes are compared every night."""
    names = tamper_table.names_on(tamper_table.PAGE.read_text(encoding="utf-8"))
    assert sorted(names) == sorted(edit.name for edit in EDITS)


def test_the_table_has_one_row_for_each_outcome_and_what_was_not_noticed_first() -> None:
    outcomes = [("one", "`logs-equal` invalid"), ("two", "**valid although wrong**"), ("three", "`logs-equal` invalid")]
    table = tamper_table.rows(outcomes)
    assert table.splitlines()[2:] == [
        "| **valid although wrong** | `two` |",
        "| `logs-equal` invalid | `one`, `three` |",
    ]
    assert tamper_table.names_on(f"{tamper_table.BEGIN}\n{table}\n{tamper_table.END}") == ["two", "one", "three"]


# --- the command ---


def _run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    status = main(["tamper", *(str(argument) for argument in arguments)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_the_command_prints_a_line_an_edit_and_the_score(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["an-acknowledged-read-is-in-no-log", "a-timer-fires-twice"]
    status, out, _ = _run(capsys, good, *(word for name in names for word in ("--only", name)))
    noticed, lacking, score = out.splitlines()
    assert status == 0
    assert noticed.startswith(f"noticed: {names[0]}: acknowledged-not-lost is invalid")
    assert lacking == f"does not apply: {names[1]}: no timer fired"
    assert score == "2 edits: 1 noticed, 0 unknown, 0 valid although wrong, 1 does not apply"


def test_the_command_speaks_json(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = _run(capsys, good, "--json", "--only", "one-log-has-another-byte")
    (fields,) = json.loads(out)["edits"]
    assert status == 0
    assert (fields["outcome"], fields["finding"]["promise"]) == ("noticed", "logs-equal")
    assert fields["finding"]["members"]
    assert fields["finding"]["position"] > 0
    assert json.loads(out)["score"]["noticed"] == 1


def test_an_unknown_edit_is_refused(good: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = _run(capsys, good, "--only", "a-timer-fires-twicee")
    assert status == 2
    assert "unknown edit 'a-timer-fires-twicee'; did you mean 'a-timer-fires-twice'?" in err


def test_a_run_that_is_not_valid_is_refused(good: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(good, tmp_path / "bad")
    (tmp_path / "bad" / "faults.jsonl").unlink()
    status, out, err = _run(capsys, good, tmp_path / "bad")
    assert (status, out) == (2, "")
    assert f"{tmp_path}/bad is " in err
    assert "expected a valid run" in err
