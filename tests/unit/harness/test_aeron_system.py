"""Aeron as a system under test: what is refused, how a member is configured, and what its files say without it."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from upheaval import aeron_programs
from upheaval.aeron_jars import SHA256
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.execution.live import LiveStage
from upheaval.repository import Repository
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_hosts import ProcessHosts
from upheaval.runtimes.renewal import Renewal
from upheaval.scenario import load_scenario, parse_scenario
from upheaval.system import (
    ClusterSpec,
    ControlStatus,
    MemberPlan,
    MemberStatus,
    aeron_inside,
    check_system,
    in_containers,
    system_named,
)
from upheaval.system.aeron import PROPERTIES_FILE, AeronSystem
from upheaval.system.aeron_files import is_running, place_of_drivers
from upheaval_node.files import layout
from upheaval_node.files.mark_file import ACTIVATION_IN_PROGRESS, OWNER_LENGTH

AERON = ClusterSpec(system="aeron", run_id="7f")


def plan(folder: Path, names: dict[str, str] | None = None) -> MemberPlan:
    endpoints = [[f"127.0.0.1:{2000 + 10 * member + port}" for port in range(5)] for member in range(3)]
    return MemberPlan(AERON, 1, endpoints, "127.0.0.1:2015", str(folder), names=names or {})


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        (replace(AERON, system="aeron:1.5l.0"), "unknown version '1.5l.0' of aeron: use one like 1.51.0, .*'1.51.0'"),
        (replace(AERON, system="aeron:1.49.3,,"), "versions '1.49.3,,' of aeron: one is missing beside a comma"),
        (replace(AERON, system="aeron:1.43.0"), "Aeron 1.43.0 is too old: members run on 1.44.1 and later"),
        (replace(AERON, components="split", more_services=("timers",)), "components split: a member has one service"),
        (replace(AERON, tls="/certificates"), "has no TLS"),
        (replace(AERON, credentials="/users"), "has no credentials"),
        (replace(AERON, planted="commit-without-a-quorum"), "has no planted bugs"),
        (replace(AERON, protocol_trace=1), "has no protocol trace"),
        (replace(AERON, service="ledgre"), "service 'ledgre': on system aeron:1.51.0 .*did you mean 'ledger'"),
        (
            replace(AERON, service="my.code:Bank", python_path=("/nowhere",)),
            r"service 'my.code:Bank': /nowhere/my.code is missing: build it first \(CLASSPATH:Class\)",
        ),
        (replace(AERON, service="lib/*:a.B", python_path=("/nowhere",)), r"/nowhere/lib/\* is missing"),
        (replace(AERON, service="a.jar:"), "service 'a.jar:': on system aeron:1.51.0 expected CLASSPATH:Class"),
        (replace(AERON, service=":a.B"), "service ':a.B': on system aeron:1.51.0 expected CLASSPATH:Class"),
    ],
)
def test_what_its_members_are_not_made_for_is_refused(spec: ClusterSpec, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        check_system(spec, "process")


def test_a_component_runs_while_it_holds_its_lock(tmp_path: Path) -> None:
    assert not is_running(tmp_path, "archive")
    (tmp_path / "archive.lock").touch()
    assert not is_running(tmp_path, "archive")
    # A lock of this process would not be seen by itself.
    holds = (
        "import fcntl, sys; lock = open(sys.argv[1], 'r+'); fcntl.lockf(lock, fcntl.LOCK_EX); "
        "print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", holds, str(tmp_path / "archive.lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert is_running(tmp_path, "archive")
        holder.communicate(b"\n")
    assert not is_running(tmp_path, "archive")


def test_a_component_of_a_container_has_its_driver_on_the_volume_of_its_member(tmp_path: Path) -> None:
    check_system(replace(AERON, components="split"), "docker")
    whole = plan(tmp_path)
    split = replace(whole, component="service")
    told = in_containers("aeron").environment(split)
    assert told["UPHEAVAL_COMPONENT"] == "service"
    assert "aeron.dir=/var/lib/upheaval/driver" in told["UPHEAVAL_CONFIG"].splitlines()
    assert "UPHEAVAL_COMPONENT" not in in_containers("aeron").environment(whole)


def test_a_class_of_ones_own_is_found_where_it_was_built_and_in_containers_where_it_was_copied(tmp_path: Path) -> None:
    (tmp_path / "target" / "lib").mkdir(parents=True)
    (tmp_path / "target" / "a.jar").touch()
    spec = replace(AERON, service="target/a.jar:target/lib/*:a.B", source=str(tmp_path)).made("7f")
    check_system(spec, "process")
    system = AeronSystem()
    here = replace(plan(tmp_path), spec=spec, python_path=spec.python_path)
    line = list(system.command(here, tmp_path / PROPERTIES_FILE))
    class_path = line[line.index("-cp") + 1].split(":")
    assert class_path[0].endswith("/aeron-all-1.51.0.jar")
    assert class_path[2:] == [f"{tmp_path}/target/a.jar", f"{tmp_path}/target/lib/*"]
    there = replace(here, python_path=("source",))
    expected = "/var/lib/upheaval/source/target/a.jar:/var/lib/upheaval/source/target/lib/*"
    assert system.environment(there)["UPHEAVAL_CLASS_PATH"] == expected
    assert "service=a.B" in system.configuration_text(there).splitlines()
    check_system(replace(spec, python_path=()), "docker")


def test_drivers_have_their_directories_where_there_is_room_for_them() -> None:
    of_a_container, of_a_machine = 64 << 20, 8 << 30
    assert place_of_drivers(of_a_machine) == Path("/dev/shm")
    assert place_of_drivers(of_a_container).parent == Path(tempfile.gettempdir())


def test_it_is_not_simulated() -> None:
    with pytest.raises(UsageError, match=r"does not run on the simulated runtime: use --runtime process, docker"):
        check_system(AERON, "simulated")


def test_a_member_in_a_container_is_told_all_by_its_environment() -> None:
    system = in_containers("aeron:1.49.3")
    assert system.image == "upheaval/aeron:1.49.3"
    endpoints = [[f"member-{member}:{port}" for port in system.ports] for member in range(3)]
    told = system.environment(MemberPlan(AERON, 1, endpoints, f"0.0.0.0:{system.metrics_port}", str(system.folder)))
    assert (told["UPHEAVAL_RUN_ID"], told["UPHEAVAL_MEMBER"]) == ("7f", "1")
    lines = told["UPHEAVAL_CONFIG"].splitlines()
    # An address that others reach: the wildcard address is of no use to them.
    assert "replication.endpoint=member-1\\:9006" in lines
    assert "folder=/var/lib/upheaval" in lines


def test_what_a_container_says_of_its_member_is_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(aeron_inside, "_FOLDER", tmp_path)
    monkeypatch.setenv("UPHEAVAL_RUN_ID", "7f")
    monkeypatch.setenv("UPHEAVAL_MEMBER", "1")
    system = AeronSystem()
    assert aeron_inside.main(["status"]) == 0
    assert system.parse_status(1, capsys.readouterr().out) == MemberStatus(1, alive=False)
    assert aeron_inside.main(["control", "snapshot"]) == 0
    assert system.parse_control(capsys.readouterr().out) == ("the member is not running", ControlStatus())
    assert aeron_inside.main(["health"]) == 1
    assert aeron_inside.main(["nonsense"]) == 2
    shown = {"member_id": 1, "alive": True, "role": "LEADER", "leadership_term_id": 3, "append_position": 96}
    told = json.dumps({**shown, "commit_position": 64, "election_state": "CLOSED", "pid": 14})
    status = system.parse_status(1, told)
    assert (status.serves_as_leader, status.append_position, status.pids) == (True, 96, {"all": 14})
    starting = json.dumps(asdict(MemberStatus(1, alive=True)))
    assert system.parse_status(1, starting) == MemberStatus(1, alive=True)


def test_the_version_is_written_down() -> None:
    assert system_named("aeron").text == "aeron:1.51.0"
    assert system_named("aeron:1.47.4").text == "aeron:1.47.4"


def test_without_java_one_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFault, match="java is missing"):
        check_system(AERON, "process")


def test_without_its_sources_one_line_says_so(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "harness" / "upheaval")
    with pytest.raises(EnvironmentFault, match="images/aeron/src/main is missing: install upheaval again"):
        aeron_programs.classes_name("1.51.0", repository=repository)


def test_classes_are_of_their_options_and_run_on_java_17(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class file has the version of its Java in bytes 6 and 7: 61 is Java 17, as in the image `aeron`."""
    compiled = aeron_programs.member_classes()
    assert (compiled / "upheaval" / "Member.class").read_bytes()[6:8] == bytes([0, 61])
    name = aeron_programs.classes_name("1.51.0")
    assert name == compiled.name
    monkeypatch.setattr(aeron_programs, "_JAVAC", ("javac", "--release", "21"))
    assert aeron_programs.classes_name("1.51.0") != name


def test_a_member_is_configured_by_properties(tmp_path: Path) -> None:
    text = AeronSystem().configuration_text(plan(tmp_path, {"127.0.0.1:2001": "127.0.0.1:9"}))
    lines = text.splitlines()
    assert "member.id=1" in lines
    assert "replication.endpoint=127.0.0.1\\:2015" in lines
    assert r"name.127.0.0.1\=2001=127.0.0.1\:9" in lines
    assert "leader.heartbeat.timeout.ms=1000" in lines
    members = next(line for line in lines if line.startswith("members="))
    assert members.count("|") == 2
    assert members.startswith(r"members=0,127.0.0.1\:2000,127.0.0.1\:2001,")


def test_a_member_that_never_ran_is_down(tmp_path: Path) -> None:
    system = AeronSystem()
    assert system.read_status(tmp_path, 1, "7f") == MemberStatus(1, alive=False)
    (tmp_path / PROPERTIES_FILE).write_text(system.configuration_text(plan(tmp_path)))
    assert system.read_status(tmp_path, 1, "7f") == MemberStatus(1, alive=False)
    assert system.read_control(tmp_path).module_state is None
    assert system.give_command(tmp_path, "snapshot") == "the member is not running"
    system.clean_up(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [PROPERTIES_FILE]


def test_a_killed_member_waits_for_its_marks(tmp_path: Path) -> None:
    system = AeronSystem()
    assert system.start_delay_s(tmp_path, "all") == 0
    for path in (layout.ARCHIVE_MARK, layout.CLUSTER_MARK):
        (tmp_path / path).parent.mkdir()

    def mark(path: str, activity_ms: int) -> None:
        content = bytearray(OWNER_LENGTH)
        content[16:24] = activity_ms.to_bytes(8, "little", signed=True)
        (tmp_path / path).write_bytes(content)

    now_ms = time.time_ns() // 10**6
    mark(layout.ARCHIVE_MARK, -1)
    mark(layout.CLUSTER_MARK, now_ms - 60_000)
    assert system.start_delay_s(tmp_path, "all") == 0
    mark(layout.CLUSTER_MARK, now_ms)
    assert 5 < system.start_delay_s(tmp_path, "all") <= 10.5
    assert system.start_delay_s(tmp_path, "archive") == 0
    assert system.start_delay_s(tmp_path, "service") == 0
    assert system.start_delay_s(tmp_path, "consensus") > 5
    mark(layout.CLUSTER_MARK, now_ms + 10**9)
    assert system.start_delay_s(tmp_path, "all") <= 10.5
    # Its owner was killed while it started: to wait does not help.
    mark(layout.CLUSTER_MARK, ACTIVATION_IN_PROGRESS)
    assert system.start_delay_s(tmp_path, "all") == 0


@pytest.mark.parametrize(("name", "kind"), [("leader-isolated-reset", "reset"), ("connections-time-out", "timeout")])
def test_what_ends_connections_is_refused_before_anything_is_started(name: str, kind: str, tmp_path: Path) -> None:
    scenario = load_scenario(name).on_system("aeron")
    with pytest.raises(UsageError, match=f"datagrams: the fault {kind}, which ends connections, cannot be used with"):
        LiveStage(scenario, "process", 1, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("jump_ms", "is_refused"), [(9000, False), (-9000, False), (9001, True), (-20000, True)])
def test_a_jump_of_the_clock_that_ends_members_is_refused_before_anything_is_started(
    jump_ms: int, is_refused: bool, tmp_path: Path
) -> None:
    text = f"title t\nworkload rate=1\nwait operations 1\ninject wrong clock-jump follower jump-ms={jump_ms}\n"
    scenario = parse_scenario(text, name="t", where="t")
    LiveStage(scenario, "process", 1, tmp_path)
    says = "^clock-jump: members of aeron:1.51.0 end by a jump of more than 9000 ms: use a jump-ms from -9000 to 9000$"
    with pytest.raises(UsageError, match=says) if is_refused else contextlib.nullcontext():
        LiveStage(scenario.on_system("aeron"), "process", 1, tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- several versions ---


def test_members_of_two_versions_run_programs_of_their_own(tmp_path: Path) -> None:
    system = AeronSystem("1.47.4,1.51.0,1.51.0")
    assert system.text == "aeron:1.47.4,1.51.0,1.51.0"
    assert system.digest.split(",") == [SHA256["1.47.4"], SHA256["1.51.0"], SHA256["1.51.0"]]
    check_system(replace(AERON, system=system.text), "process")
    for member_id, version in enumerate(system.versions):
        line = list(system.command(replace(plan(tmp_path), member_id=member_id), tmp_path / PROPERTIES_FILE))
        assert line[line.index("-cp") + 1].split(":")[0].endswith(f"/aeron-all-{version}.jar")
    assert system.version == "1.47.4", "that of clients is the oldest"


def test_versions_are_as_many_as_members_and_of_processes() -> None:
    with pytest.raises(UsageError, match=r"system aeron:1\.47\.4,1\.51\.0 names 2 versions for 3 members"):
        check_system(replace(AERON, system="aeron:1.47.4,1.51.0"), "process")
    with pytest.raises(UsageError, match=r"members of several versions run as processes: use --runtime process"):
        _ = in_containers("aeron:1.47.4,1.51.0,1.51.0").image


def test_an_upgrade_goes_member_by_member_to_one_version() -> None:
    text = AeronSystem("1.47.4").text
    after = []
    for member_id in (1, 2, 0):
        text = system_named(text).with_member(member_id, "aeron:1.51.0", 3)
        after.append(text)
    assert after == ["aeron:1.47.4,1.51.0,1.47.4", "aeron:1.47.4,1.51.0,1.51.0", "aeron:1.51.0"]


@pytest.mark.parametrize(
    ("to", "says"),
    [
        ("aeron:1.47.4", r"--to aeron:1\.47\.4: members run 1\.51\.0, and an older Aeron need not read what a newer"),
        ("upheaval", r"--to upheaval: members of aeron:1\.47\.4,1\.51\.0 are upgraded to one aeron:VERSION"),
        ("aeron:1.51.0,1.51.0", r"are upgraded to one aeron:VERSION"),
        ("aeron:1.51.0-rc1", "members run 1.51.0, and an older Aeron need not read what a newer"),
        ("aeron:1.43.0", "Aeron 1.43.0 is too old"),
    ],
)
def test_what_is_no_upgrade_is_refused(to: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        AeronSystem("1.47.4,1.51.0").upgraded_to(to)


def test_an_upgrade_is_noted_in_cluster_and_run_and_what_cannot_be_leaves_them(tmp_path: Path) -> None:
    cluster = ProcessCluster.create(tmp_path / "c", replace(AERON, system="aeron:1.47.4", run_id=""))
    hosts = ProcessHosts(cluster)
    files = cluster.folder / "cluster.json", cluster.folder / "manifest.json"
    before = [path.read_bytes() for path in files]
    for renewal, says in (
        (Renewal(app_version=1), r"--app-version: members of aeron:1\.47\.4 have Aeron's default"),
        (Renewal(system="aeron:1.46.9"), "members run 1.47.4, and an older Aeron"),
        (Renewal(image="x"), "these members are processes"),
    ):
        with pytest.raises(UsageError, match=says):
            hosts.prepare(renewal)
    assert [path.read_bytes() for path in files] == before
    renewal = hosts.prepare(Renewal(system="aeron"))
    hosts.renew(1, renewal)
    mixed = "aeron:1.47.4,1.51.0,1.47.4"
    assert ProcessCluster.open(cluster.folder).config.system == cluster.system.text == mixed
    for member_id in (2, 0):
        hosts.renew(member_id, renewal)
    manifest = cluster.run.read_manifest()
    assert (manifest.system, manifest.system_sha256) == ("aeron:1.51.0", SHA256["1.51.0"])
    assert manifest.systems_before == ("aeron:1.47.4", mixed, "aeron:1.47.4,1.51.0,1.51.0")
