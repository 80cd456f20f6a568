"""The command line without a cluster: exit statuses, and one clear line for whatever is wrong."""

import json
import re
import socket
from pathlib import Path

import pytest

from support.built_locks import locks_run
from support.built_runs import good_run
from upheaval.checkers.own.own_replay import BUDGET_VARIABLE
from upheaval.cli.main import main
from upheaval.runtimes import cluster_file
from upheaval.runtimes.process import ProcessCluster


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    try:
        status = main([str(argument) for argument in arguments])
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else -1
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def one_line(text: str) -> str:
    assert text.startswith("upheaval: ")
    assert text.count("\n") == 1
    return text


def test_a_good_run_is_two_lines_of_verdict_and_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run().write(tmp_path)
    status, out, err = run(capsys, "verify", tmp_path)
    assert (status, err) == (0, "")
    verdict, folder = out.splitlines()
    assert re.fullmatch(r"verdict: valid, \d+ kept, \d+ not checked \(--all shows them\)", verdict)
    assert folder == str(tmp_path)


def test_a_bad_run_exits_1_and_names_the_operation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = good_run()
    for payloads in built.payloads:
        payloads.append(payloads[50])
    built.write(tmp_path)
    status, out, _ = run(capsys, "verify", tmp_path)
    assert status == 1
    assert re.match(r"verdict: invalid, \d+ broken", out)
    assert "and again at position" in out


def test_an_unknown_run_exits_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run(20).write(tmp_path)
    assert run(capsys, "verify", tmp_path)[0] == 3


def test_verify_speaks_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run().write(tmp_path)
    status, out, _ = run(capsys, "verify", tmp_path, "--json")
    report = json.loads(out)
    assert (status, report["verdict"]) == (0, "valid")
    assert all(finding["verdict"] == "valid" for finding in report["promises"])


def test_several_runs_are_a_list_and_the_worst_of_them_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good_run().write(tmp_path / "good")
    good_run(20).write(tmp_path / "short")
    status, out, err = run(capsys, "verify", tmp_path / "good", tmp_path / "short", "--json")
    assert (status, err) == (3, "")
    reports = [(report["run"], report["verdict"]) for report in json.loads(out)]
    assert reports == [(str(tmp_path / "good"), "valid"), (str(tmp_path / "short"), "unknown")]


def test_a_malformed_run_keeps_no_other_from_being_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("bad", "good"):
        good_run().write(tmp_path / name)
    (tmp_path / "bad" / "faults.jsonl").write_text("{\n")
    status, out, err = run(capsys, "verify", tmp_path / "bad", tmp_path / "good")
    assert status == 2
    assert "faults.jsonl:1: not JSON" in one_line(err)
    verdict, folder = out.splitlines()
    assert (verdict.startswith("verdict: valid, "), folder) == (True, str(tmp_path / "good"))


def test_a_run_that_this_machine_cannot_judge_keeps_no_other_from_being_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    locks_run("").write(tmp_path / "own")
    good_run().write(tmp_path / "good")
    monkeypatch.setenv(BUDGET_VARIABLE, "abc")
    status, out, err = run(capsys, "verify", tmp_path / "own", tmp_path / "good")
    assert (status, one_line(err).startswith(f"upheaval: {BUDGET_VARIABLE}: expected a positive number")) == (2, True)
    assert out.splitlines()[-1] == str(tmp_path / "good")


def test_a_malformed_history_exits_2_with_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run().write(tmp_path)
    with (tmp_path / "history.jsonl").open("a") as stream:
        stream.write("{\n")
    status, out, err = run(capsys, "verify", tmp_path)
    assert (status, out) == (2, "")
    assert "history.jsonl:401: not JSON" in one_line(err)


@pytest.mark.parametrize("command", ["verify", "explain", "measure", "logs", "elections", "replay", "shrink", "when"])
def test_a_folder_that_is_no_run_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    nowhere = tmp_path / "nowhere"
    status, _, err = run(capsys, command, nowhere)
    assert (status, one_line(err)) == (2, f"upheaval: {nowhere} is not a run folder: no such folder\n")
    status, _, err = run(capsys, command, tmp_path)
    assert (status, "it has no manifest.json" in one_line(err) or "it lacks run.scenario" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "COMMAND"),
        (["fly"], "unknown command 'fly' "),
        (["statsu"], "unknown command 'statsu'; did you mean 'status'?"),
        (["doctor", "--jsn"], "unknown option '--jsn'; did you mean '--json'? (see `upheaval doctor --help`)"),
        (["demo", "here"], "unexpected argument 'here' (see `upheaval demo --help`)"),
        (["run", "leader-killed", "--seed", "-5"], "a seed is a number from 0 with at most 18 digits, not '-5'"),
        (["run", "leader-killed", "--seed", "x"], "a seed is a number from 0 with at most 18 digits, not 'x'"),
        (["load", "--seed", "-5"], "a seed is a number from 0"),
        (["up"], "--dir"),
        (["up", "--dir", "x", "--members", "many"], "invalid int value: 'many'"),
        (["up", "--dir", "x", "--components", "half"], "invalid choice: 'half'"),
        (["kill", "--dir", "x", "1", "--component", "brain"], "invalid choice: 'brain'"),
        (
            ["kill", "--dir", "x", "1", "--component", "archiv"],
            "--component: invalid choice: 'archiv': use one of archive, consensus, service; did you mean 'archive'?",
        ),
        (
            ["client", "--dir", "x", "--timeout", "-1", "echo", "a"],
            "expected seconds above 0 and below 100000, got '-1'",
        ),
        (["client", "--dir", "x", "register", "write", "k"], "value"),
        (["verify", "x", "--master", "local[1]"], "--master is Spark's"),
        (["measure", "x", "--master", "local[1]"], "--master is Spark's"),
        (["verify", "x" * 300], "File name too long"),
        (["status", "--dir", "x" * 300], "File name too long"),
        (["run", "x" * 300 + ".scenario"], "File name too long"),
    ],
)
def test_wrong_arguments_exit_2_with_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str
) -> None:
    status, out, err = run(capsys, *arguments)
    assert (status, out) == (2, "")
    assert reason in one_line(err)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--members", 0], "--members 0: a cluster has 1 to 9 members"),
        (["--members", 10], "1 to 9 members"),
        (["--base-port", 80], "base port 80 does not leave room"),
        (["--base-port", 65530], "base port 65530 does not leave room"),
        (["--service", "nothing"], "'nothing' is neither package.module:Class nor one of"),
        (["--service", "nowhere.at_all:Thing"], "no module 'nowhere'"),
        (["--service", "json:Nobody"], "no class 'Nobody'"),
        (["--service", "workbnech"], "; did you mean 'workbench'?"),
        (["--service", "json:JsonDecoder"], "no class 'JsonDecoder'; did you mean 'JSONDecoder'?"),
        (["--service", "jsn:JSONDecoder"], "no module 'jsn' on the Python path; did you mean 'json'?"),
        (["--service", "json.decodr:JSONDecoder"], "'json.decodr' on the Python path; did you mean 'json.decoder'?"),
        (["--service", "json:JSONDecoder"], "not a subclass of ClusteredService"),
    ],
)
def test_a_cluster_that_makes_no_sense_is_not_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[object], reason: str
) -> None:
    status, out, err = run(capsys, "up", "--dir", tmp_path / "c", *arguments)
    assert (status, out) == (2, "")
    assert reason in one_line(err)
    assert not (tmp_path / "c").exists()


def test_a_port_in_use_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        status, _, err = run(capsys, "up", "--dir", tmp_path / "c", "--base-port", port)
    assert status == 2
    assert f"port {port} is in use" in one_line(err)


def test_a_folder_with_something_else_in_it_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    status, _, err = run(capsys, "up", "--dir", tmp_path)
    assert status == 2
    assert "is not empty (letter.txt)" in one_line(err)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_file_instead_of_a_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        status, _, err = run(capsys, "up", "--dir", folder)
        assert status == 2
        one_line(err)


def test_a_folder_that_nobody_may_make_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "up", "--dir", "/proc/upheaval")
    assert status == 2
    assert "/proc/upheaval" in one_line(err)


@pytest.mark.parametrize("command", [["status"], ["down"], ["kill", "0"], ["start", "0"], ["client", "echo", "x"]])
def test_a_folder_without_a_cluster_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    status, _, err = run(capsys, command[0], "--dir", tmp_path, *command[1:])
    assert status == 2
    assert "holds no cluster" in one_line(err)


@pytest.fixture
def made(tmp_path: Path) -> ProcessCluster:
    """A cluster that was made and never started."""
    return ProcessCluster.create(tmp_path / "c")


@pytest.mark.parametrize("change", [{"version": "9.9.9"}, {"format": 7}, {"version": "0.99.0", "format": 2}])
@pytest.mark.parametrize("command", [["status"], ["up"], ["down"], ["kill", "0"]])
def test_a_folder_of_another_version_is_one_line_and_left_alone(
    made: ProcessCluster, capsys: pytest.CaptureFixture[str], change: dict[str, object], command: list[str]
) -> None:
    path = made.folder / cluster_file.CLUSTER_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    before = path.read_bytes()
    status, _, err = run(capsys, command[0], "--dir", made.folder, *command[1:])
    assert status == 2
    assert "was made by upheaval" in one_line(err)
    assert path.read_bytes() == before


@pytest.mark.parametrize("command", [["kill"], ["start"]])
@pytest.mark.parametrize("member", ["3", "-1", "99"])
def test_an_unknown_member_is_one_line(
    made: ProcessCluster, capsys: pytest.CaptureFixture[str], command: list[str], member: str
) -> None:
    status, _, err = run(capsys, *command, "--dir", made.folder, "--", member)
    assert status == 2
    assert f"unknown member {member}: this cluster has members 0 to 2" in one_line(err)


def test_commands_on_a_cluster_that_is_down_say_so(made: ProcessCluster, capsys: pytest.CaptureFixture[str]) -> None:
    status, _, err = run(capsys, "kill", "--dir", made.folder, 0)
    assert (status, "member 0 is not running" in one_line(err)) == (2, True)
    status, _, err = run(capsys, "client", "--dir", made.folder, "echo", "x")
    assert (status, "is not running: start it" in one_line(err)) == (2, True)
    status, out, _ = run(capsys, "down", "--dir", made.folder)
    assert (status, "it was not running" in out) == (0, True)
    status, out, _ = run(capsys, "status", "--dir", made.folder, "--json")
    members = json.loads(out)["members"]
    assert status == 0
    assert [member["member_id"] for member in members] == [0, 1, 2]
    assert not any(member["alive"] for member in members)
    assert set(members[0]) == {
        "member_id",
        "alive",
        "role",
        "leadership_term_id",
        "leader_member_id",
        "election_state",
        "append_position",
        "commit_position",
        "pids",
    }


def test_top_ends_after_as_many_looks_as_asked_for(made: ProcessCluster, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = run(capsys, "top", "--dir", made.folder, "--count", 2, "--every", 0.01, "--json")
    looks = [json.loads(line)["members"] for line in out.splitlines()]
    assert status == 0
    assert [[(member["alive"], member["lag"]) for member in look] for look in looks] == [[(False, None)] * 3] * 2


def test_options_that_contradict_the_folder_are_refused(
    made: ProcessCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = run(capsys, "up", "--dir", made.folder, "--members", 5)
    assert status == 2
    assert "holds a cluster with --members 3, not 5" in one_line(err)


def test_append_with_read_takes_no_value_and_without_it_needs_one(
    made: ProcessCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, reason in ((["--read", "k", "1"], "no value"), (["k"], "a key and a value")):
        status, _, err = run(capsys, "client", "--dir", made.folder, "append", *arguments)
        assert status == 2
        assert reason in one_line(err)


def test_a_page_that_would_be_a_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good_run(20).write(tmp_path / "run")
    for output in (".", "..", tmp_path):
        status, _, err = run(capsys, "report", tmp_path / "run", "--out", output)
        assert (status, "is a folder" in one_line(err)) == (2, True)


@pytest.mark.parametrize(
    "change",
    [
        {"members": 0},
        {"members": 10},
        {"members": 10**9},
        {"components": "half"},
        {"profile": "fast"},
        {"sync_level": 3},
        {"base_port": 0},
        {"base_port": 65530},
        {"base_port": 10**9},
    ],
)
@pytest.mark.parametrize("command", ["status", "up", "down"])
def test_a_cluster_file_that_makes_no_sense_is_one_line(
    made: ProcessCluster, capsys: pytest.CaptureFixture[str], change: dict[str, object], command: str
) -> None:
    path = made.folder / cluster_file.CLUSTER_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    status, _, err = run(capsys, command, "--dir", made.folder)
    (name,) = change
    assert (status, f"cluster.json: field '{name}' must be" in one_line(err)) == (2, True)


@pytest.mark.parametrize(
    "change", [{"members": 0}, {"members": 10**9}, {"components": "half"}, {"profile": "fast"}, {"sync_level": -1}]
)
@pytest.mark.parametrize("command", ["verify", "measure", "report"])
def test_a_manifest_that_makes_no_sense_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, object], command: str
) -> None:
    good_run(20).write(tmp_path)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    status, _, err = run(capsys, command, tmp_path)
    (name,) = change
    assert (status, f"manifest.json: field '{name}' must be" in one_line(err)) == (2, True)


@pytest.mark.parametrize("name", ["../../x", "/x", "..", ""])
def test_a_run_is_not_replayed_into_a_folder_that_its_result_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (tmp_path / "run.scenario").write_text("cluster members=3\nwait operations 1\n")
    (tmp_path / "result.json").write_text(json.dumps({"scenario": name, "runtime": "simulated", "seed": 1}))
    status, _, err = run(capsys, "replay", tmp_path)
    assert (status, "must be the name of a scenario" in one_line(err)) == (2, True)
