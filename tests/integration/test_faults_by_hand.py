"""Faults by hand, from the command line and by a member's handle: proved by what is seen, or no faults at all."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.execution.links import ProxiedLinks
from upheaval.records import RunFolder
from upheaval.runtimes.member_files import FolderFiles
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_node import ProcessNode
from upheaval.system import ClusterSpec
from upheaval.ui.hands import Hands
from upheaval.ui.live import LiveView
from upheaval_chaos import faults
from upheaval_chaos.faults import MemberFault, MemberFaultKind, Members


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    cluster = ProcessCluster.create(tmp_path_factory.mktemp("hand") / "c", ClusterSpec(members=3))
    try:
        cluster.up()
        yield cluster
    finally:
        end_without_trace(cluster)


@pytest.fixture
def cluster(shared: ProcessCluster) -> ProcessCluster:
    """Whole at the beginning of each test, and without faults."""
    shared.up()
    shared.run.faults_file.unlink(missing_ok=True)
    return shared


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What will never happen need not be waited for as long as in earnest."""
    monkeypatch.setattr(faults, "TAKES_EFFECT_S", 0.5)
    monkeypatch.setattr(faults, "COMES_BACK_S", 0.5)


def paralyse(monkeypatch: pytest.MonkeyPatch, *hands: str) -> None:
    for hand in hands:
        monkeypatch.setattr(ProcessNode, hand, lambda *_: None)


def test_commands_whose_hands_do_nothing_fail_and_leave_faults_that_are_not_proved(
    cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], impatient: None
) -> None:
    paralyse(monkeypatch, "kill", "stop")
    for command in ("kill", "stop"):
        assert main([command, "--dir", str(cluster.folder), "0"]) == 3
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert f"{command} of member-0, not proved: " in err
    records = list(cluster.run.read_faults())
    assert [(record.what, record.is_proved) for record in records] == [("kill", False), ("stop", False)]


def test_a_kill_and_its_healing_by_another_command_are_proved(
    cluster: ProcessCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    before = cluster.member(0).incarnation()
    assert main(["kill", "--dir", str(cluster.folder), "0"]) == 0
    (killed,) = cluster.run.read_faults()
    assert killed.inject_proof is not None
    assert killed.inject_proof.evidence == f"gone: {min(before)}"
    assert (killed.heal_end_ns, killed.heal_proof) == (None, None)
    assert main(["start", "--dir", str(cluster.folder), "0"]) == 0
    (healed,) = cluster.run.read_faults()
    assert healed.unhealed() == killed
    assert healed.is_proved
    assert healed.heal_proof is not None
    assert healed.heal_proof.evidence == f"running: {min(cluster.member(0).incarnation())}"


def test_what_does_not_come_back_is_not_healed(
    cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch, impatient: None
) -> None:
    cluster.member(0).kill()
    with monkeypatch.context() as patch:
        paralyse(patch, "start")
        assert main(["start", "--dir", str(cluster.folder), "0"]) == 3
    (record,) = RunFolder(cluster.folder).read_faults()
    assert record.heal_proof is not None
    assert not record.heal_proof.holds


def test_a_pause_is_proved_by_the_turns_that_are_not_taken(
    cluster: ProcessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = cluster.member(1)
    member.pause()
    member.resume()
    with monkeypatch.context() as patch:
        paralyse(patch, "pause")
        with pytest.raises(UnknownOutcome, match="pause of member-1, not proved: member 1 is still running"):
            member.pause()
    assert [record.is_proved for record in cluster.run.read_faults()] == [True, False]


def test_each_component_is_healed_of_its_own_fault_and_by_one_start(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=1, components="split"))
    try:
        cluster.up()
        member = cluster.member(0)
        member.pause("service")
        member.kill("archive")
        with pytest.raises(UnknownOutcome, match="cannot pause archive of member 0: it is not running"):
            MemberFault(MemberFaultKind.PAUSE, Members(member_id=0), "archive").aim(cluster)
        member.start()
        paused, killed = cluster.run.read_faults()
        assert (paused.what, paused.heal_end_ns) == ("pause", None)
        assert killed.component == "archive"
        assert killed.is_proved
        assert killed.heal_end_ns is not None
    finally:
        end_without_trace(cluster)


def test_files_of_a_stopped_member_are_damaged_and_removed(
    cluster: ProcessCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ("--dir", str(cluster.folder))
    assert main(["wipe", *folder, "1"]) == 2
    assert "member 1 is running: end it first with `upheaval stop` or `upheaval kill`" in capsys.readouterr().err
    assert main(["kill", *folder, "1"]) == 0
    assert main(["damage", *folder, "1", "last-page"]) == 0
    damaged = "damaged the log of member 1: member 1 was down already; archive/0-0.rec differs from byte "
    assert damaged in capsys.readouterr().out
    assert main(["wipe", *folder, "1"]) == 0
    assert " bytes are gone" in capsys.readouterr().out
    assert FolderFiles(cluster.member(1).folder).names() == []
    assert main(["start", *folder, "1"]) == 0
    cluster.wait_until_caught_up(1, 120)
    records = list(cluster.run.read_faults())
    assert [record.what for record in records] == ["kill", "damage", "wipe"]
    assert all(record.is_proved and record.heal_end_ns for record in records), records


def test_a_member_with_nothing_to_purge_is_refused_and_left_as_it_is(
    cluster: ProcessCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = ("--dir", str(cluster.folder))
    refusals = {
        (): "member 2 has no snapshot: its log is needed from the beginning",
        (
            "snapshot",
            *folder,
        ): "the log of member 2, from position 0 on, has no segment before that of its latest snapshot",
    }
    for command, refusal in refusals.items():
        assert main(["purge", *folder, "2"]) == 2
        assert "member 2 is running: end it first with" in capsys.readouterr().err
        if command:
            assert main(list(command)) == 0
        assert main(["stop", *folder, "2"]) == 0
        files = FolderFiles(cluster.member(2).folder)
        before = {name: files.read(name) for name in files.names()}
        capsys.readouterr()
        assert main(["purge", *folder, "2"]) == 2
        assert refusal in capsys.readouterr().err
        assert {name: files.read(name) for name in files.names()} == before
        assert main(["start", *folder, "2"]) == 0
        cluster.wait_until_caught_up(2, 120)
    assert {record.what for record in cluster.run.read_faults()} == {"stop"}


def test_a_collected_run_whose_files_are_removed_by_command_is_sealed_again(cluster: ProcessCluster) -> None:
    cluster.down()
    assert main(["wipe", "--dir", str(cluster.folder), "1"]) == 0
    assert verify_run(cluster.folder).finding(Promise.EVIDENCE_SEALED).verdict is Verdict.VALID


def test_the_page_heals_all_faults_of_the_commands_which_have_no_names(cluster: ProcessCluster) -> None:
    cluster.member(0).pause()
    cluster.member(1).kill()
    hands = Hands(cluster)
    hands.heal_all()
    assert [fault.heal_proof is not None and fault.heal_proof.holds for fault in cluster.run.read_faults()] == [
        True
    ] * 2
    assert [done.answer for done in hands.done] == ["done"]


def test_a_link_fault_that_is_there_in_part_is_on_record_and_can_be_healed(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=2))
    try:
        links, hands = ProxiedLinks(cluster, 1), Hands(cluster)
        cluster.use_links(links)
        cluster.up()
        # One of the proxies refuses its part, after others have taken theirs.
        fields = {"name": "timeout_downstream", "type": "latency", "stream": "downstream"}
        links._api._call("POST", "/proxies/1-to-0-log/toxics", fields)
        with pytest.raises(EnvironmentFault, match="refused POST /proxies/1-to-0-log/toxics"):
            hands.inject("blackhole member-0 <-> member-1")
        (record,) = hands.open_faults()
        assert record.inject_proof is not None
        assert not record.inject_proof.holds
        hands.heal(record.name)
        assert hands.open_faults() == []
    finally:
        end_without_trace(cluster)


def test_a_page_that_ends_heals_what_only_its_process_can_heal(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=3))
    try:
        cluster.use_links(ProxiedLinks(cluster, 1))
        cluster.up()
        hands = Hands(cluster)
        hands.inject("kill member-2")
        hands.inject("blackhole member-0 <-> member-1")
        hands.close()
        killed, cut = cluster.run.read_faults()
        assert killed.heal_end_ns is None, "a command can heal it"
        assert cut.heal_proof is not None
        assert cut.heal_proof.holds
    finally:
        end_without_trace(cluster)


def test_the_page_heals_a_cut_link_before_it_ends_the_cluster(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", ClusterSpec(members=3))
    try:
        cluster.use_links(ProxiedLinks(cluster, 1))
        cluster.up()
        view = LiveView(cluster, ends_with_page=True)
        view.hands.inject("blackhole member-0 <-> member-1")
        view.end()
        (cut,) = cluster.run.read_faults()
        assert cut.heal_proof is not None
        assert cut.heal_proof.holds
        converge = cluster.run.read_manifest().converge
        assert converge is not None
        assert converge.reached
    finally:
        end_without_trace(cluster)
