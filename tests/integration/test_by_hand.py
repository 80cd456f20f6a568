"""A cluster used as a person uses it: with the commands, one after the other."""

import json
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from support.own_services import SERVICES, importable
from upheaval.checkers.evidence.convergence import ACKNOWLEDGED_MIN
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.records import Function, RunFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval.waits import wait_until

COMPONENTS = ("archive", "consensus", "service")


class Hand:
    """Runs commands on one folder and gives back what they print."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def run(self, command: str, *arguments: object) -> tuple[int, str, str]:
        status = main([command, "--dir", str(self.folder), *[str(argument) for argument in arguments]])
        captured = self._capsys.readouterr()
        return status, captured.out, captured.err

    def do(self, command: str, *arguments: object) -> str:
        status, out, err = self.run(command, *arguments)
        assert (status, err) == (0, ""), (command, arguments, out, err)
        return out

    def client(self, *arguments: object) -> str:
        return self.do("client", "--timeout", 20, *arguments).rstrip("\n")

    def members(self) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self.do("status", "--json"))["members"]
        return found

    def leader(self) -> int:
        def found() -> tuple[int] | None:
            for member in self.members():
                if member["role"] == "LEADER" and member["election_state"] == "CLOSED":
                    assert isinstance(member["member_id"], int)
                    return (member["member_id"],)
            return None

        return wait_until(found, timeout_s=240, describe=lambda: f"no leader in {self.members()}")[0]

    def wait_until_equal(self) -> None:
        """All members live, follow one leader, and stand at one position."""

        def equal() -> bool:
            members = self.members()
            positions = {member[name] for member in members for name in ("append_position", "commit_position")}
            leaders = {member["leader_member_id"] for member in members}
            alive = all(member["alive"] and member["election_state"] == "CLOSED" for member in members)
            return alive and len(positions) == 1 and len(leaders) == 1 and -1 not in leaders

        wait_until(equal, timeout_s=240, describe=lambda: f"the members differ: {self.members()}")


@pytest.mark.heavy
@pytest.mark.parametrize("components", [pytest.param("together", marks=pytest.mark.nightly), "split"])
def test_a_cluster_is_started_used_broken_healed_and_ended(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], components: str
) -> None:
    hand = Hand(tmp_path / "c", capsys)
    try:
        out = hand.do("up", "--members", 3, "--runtime", "process", "--components", components, "--profile", "test")
        assert "leader: member" in out
        _use(hand)
        _look(hand, components)

        leader = hand.leader()
        assert f"killed member {leader}" in hand.do("kill", leader)
        assert hand.members()[leader]["alive"] is False
        assert hand.client("register", "read", "k") == "6"
        assert hand.client("append", "k", 3) == "ok"
        hand.do("start", leader)
        hand.wait_until_equal()
        assert hand.client("append", "--read", "k") == "[1, 2, 3]"

        if components == "split":
            for number, component in enumerate(COMPONENTS):
                victim = (hand.leader() + number) % 3
                hand.do("kill", victim, "--component", component)
                assert hand.client("append", "parts", number) == "ok"
                hand.do("start", victim)
                hand.wait_until_equal()
            assert hand.client("append", "--read", "parts") == "[0, 1, 2]"

        faults = list(RunFolder(hand.folder).read_faults())
        assert len(faults) == (4 if components == "split" else 1)
        assert all(fault.heal_end_ns is not None for fault in faults), "each was healed by a later command"

        hand.do("down")
        assert not any(member["alive"] for member in hand.members())
        hand.do("up")
        assert hand.client("append", "--read", "k") == "[1, 2, 3]"
        assert hand.client("register", "read", "k") == "6"
    finally:
        end_without_trace(ProcessCluster.open(hand.folder))


def _use(hand: Hand) -> None:
    assert hand.client("register", "read", "k") == "null"
    assert hand.client("register", "write", "k", 5) == "ok"
    assert hand.client("register", "read", "k") == "5"
    assert hand.client("register", "cas", "k", 5, 6) == "true"
    assert hand.client("register", "cas", "k", 5, 7) == "false"
    assert hand.client("append", "k", 1) == "ok"
    assert hand.client("append", "k", 2) == "ok"
    assert hand.client("append", "--read", "k") == "[1, 2]"
    assert hand.client("echo", "hello there") == "hello there"
    status, out, err = hand.run("client", "call", "hello")
    assert (status, out) == (2, "")
    assert "the cluster runs workbench, which is shipped: use register, append or echo instead of call" in err


def _look(hand: Hand, components: str) -> None:
    hand.wait_until_equal()
    members = hand.members()
    for member in members:
        pids = member["pids"]
        assert isinstance(pids, dict)
        assert set(pids) == set(COMPONENTS)
        assert len(set(pids.values())) == (3 if components == "split" else 1)
        assert (hand.folder / f"member-{member['member_id']}" / "archive").is_dir()
        assert (hand.folder / f"member-{member['member_id']}" / "cluster").is_dir()
    assert sorted(str(member["role"]) for member in members) == ["FOLLOWER", "FOLLOWER", "LEADER"]
    table = hand.do("status")
    assert table.count("LEADER") == 1
    assert len(table.splitlines()) == 5


@pytest.mark.heavy
@pytest.mark.parametrize("members", [1, pytest.param(5, marks=pytest.mark.nightly)])
def test_clusters_of_one_and_of_five_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str], members: int) -> None:
    hand = Hand(tmp_path / "c", capsys)
    try:
        hand.do("up", "--members", members)
        _use(hand)
        hand.wait_until_equal()
    finally:
        end_without_trace(ProcessCluster.open(hand.folder))


@pytest.mark.heavy
def test_what_cannot_be_done_to_a_running_cluster_is_one_line_and_harms_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand = Hand(tmp_path / "c", capsys)
    try:
        hand.do("up", "--members", 1)
        hand.client("register", "write", "k", 1)
        base_port = ProcessCluster.open(hand.folder).config.base_port
        other = Hand(tmp_path / "other", capsys)
        for status, err, reason in (
            _refusal(hand, "kill", 0, "--component", "archive", reason="has all its components together"),
            _refusal(hand, "kill", 7, reason="unknown member 7"),
            _refusal(hand, "start", 7, reason="unknown member 7"),
            _refusal(other, "up", "--base-port", base_port, reason=f"port {base_port} is in use"),
            _refusal(hand, "client", "register", "write", "k" * 2000, "1", reason="key of 2000"),
        ):
            assert status == 2
            assert reason in err
            assert err.count("\n") == 1
        assert not (tmp_path / "other").exists()
        assert "is running already" in hand.do("start", 0)
        assert "leader: member 0" in hand.do("up")
        assert hand.client("register", "read", "k") == "1"
        _ask_for_json(hand)
    finally:
        end_without_trace(ProcessCluster.open(hand.folder))


def _ask_for_json(hand: Hand) -> None:
    assert json.loads(hand.do("start", "--json", 0)) == {"member": 0, "was_running": True}
    assert json.loads(hand.do("client", "--timeout", 20, "--json", "register", "read", "k")) == {"result": 1}
    up = json.loads(hand.do("up", "--json"))
    assert (up["dir"], up["members"], up["leader"]) == (str(hand.folder), 1, 0)
    snapshot = json.loads(hand.do("snapshot", "--json", "--timeout", 60))
    assert (snapshot["what"], snapshot["leader"]) == ("snapshot", 0)
    assert json.loads(hand.do("down", "--json")) == {"dir": str(hand.folder), "was_running": True}


def _refusal(hand: Hand, command: str, *arguments: object, reason: str) -> tuple[int, str, str]:
    status, _, err = hand.run(command, *arguments)
    return status, err, reason


@pytest.mark.heavy
def test_an_operation_that_no_quorum_takes_is_unknown_and_exits_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand = Hand(tmp_path / "c", capsys)
    try:
        hand.do("up")
        leader = hand.leader()
        for member_id in range(3):
            if member_id != leader:
                hand.do("kill", member_id)
        status, _, err = hand.run("client", "--timeout", 2, "register", "write", "k", 1)
        assert status == 3
        assert err.startswith("upheaval: ")
        assert err.count("\n") == 1
    finally:
        end_without_trace(ProcessCluster.open(hand.folder))


def test_files_of_the_current_folder_are_not_taken_for_modules_of_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("queue", "selectors", "runpy", "socket"):
        Path(f"{name}.py").write_text("raise RuntimeError('of the current folder')\n", encoding="utf-8")
    hand = Hand(tmp_path / "c", capsys)
    try:
        hand.do("up", "--members", 1)
        hand.do("backup", "start")
        status, out, err = hand.run("load", "--users", 1, "--duration", 1, "--rate", 0)
        assert status == 0, (out, err)
        hand.do("backup", "wait")
    finally:
        end_without_trace(ProcessCluster.open(hand.folder))


@pytest.mark.heavy
def test_a_run_by_hand_is_valid_once_it_is_down_and_no_more_when_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hand = Hand(tmp_path / "c", capsys)
    try:
        hand.do("up", "--members", 1)
        for number in range(ACKNOWLEDGED_MIN):
            hand.client("register", "write", "k", number)
        hand.do("down")
        assert main(["verify", str(hand.folder)]) == 0
        assert "verdict: valid" in capsys.readouterr().out
        hand.do("up")
        hand.client("register", "write", "k", 0)
        assert RunFolder(hand.folder).read_manifest().converge is None
        hand.do("kill", 0)
        hand.do("down")
        assert main(["verify", str(hand.folder)]) == 3
    finally:
        end_without_trace(ProcessCluster.open(hand.folder))


@pytest.mark.heavy
def test_a_custom_service_is_asked_by_hand_and_its_answers_are_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(SERVICES)
    hand = Hand(tmp_path / "c", capsys)
    with importable(SERVICES):
        try:
            hand.do("up", "--members", 1, "--service", "locks:Locks")
            status, out, err = hand.run("client", "echo", "hello")
            said = f"the cluster runs locks:Locks: send it a text with `upheaval client --dir {hand.folder} call TEXT`"
            assert (status, out, err) == (2, "", f"upheaval: {said}\n")
            request = '{"id": 7, "key": "door"}'
            answers = [hand.client("call", request), json.loads(hand.client("--json", "call", request))["result"]]
            hand.do("down")
        finally:
            end_without_trace(ProcessCluster.open(hand.folder))
        calls = list(RunFolder(hand.folder).read_history())
        assert [(call.f, call.result) for call in calls] == [(Function.CALL, answer) for answer in answers]
        assert json.loads(answers[0])["id"] == 7
        assert verify_run(hand.folder).finding(Promise.LINEARIZABLE).verdict is Verdict.VALID
