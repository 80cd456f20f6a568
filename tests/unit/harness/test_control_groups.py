"""Control groups of both versions, in folders that are laid out as the kernel lays out its own."""

import errno
import os
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault
from upheaval.runtimes import control_groups
from upheaval.runtimes.control_groups import (
    Controller,
    Counts,
    MemberGroup,
    MemoryCounts,
    counts_in,
    hierarchy,
    memory_in,
    require_groups,
)
from upheaval.runtimes.owner import Owner
from upheaval_chaos.errors import UnknownOutcome
from upheaval_chaos.host_faults import MIB, HostFaultKind
from upheaval_chaos.programs import run_program

PID = 4711
STAT = "nr_periods 34\nnr_throttled 28\nthrottled_time 679288439\nnr_bursts 0\n"
MEMORY = {
    1: {
        "memory.limit_in_bytes": "67108864\n",
        "memory.usage_in_bytes": "5242880\n",
        "memory.failcnt": "12\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
    },
    2: {
        "memory.max": "67108864\n",
        "memory.current": "5242880\n",
        "memory.events": "low 0\nhigh 0\nmax 12\noom 4\noom_kill 3\noom_group_kill 0\n",
    },
}
"""The files of a group, by version."""
UNIFIED_STAT = "usage_usec 900\nuser_usec 600\nsystem_usec 300\n" + STAT.replace("throttled_time", "throttled_usec")


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mounted hierarchy, of the version that a test is for; this process is in the group `own/scope`."""
    version = request.param
    roots = [tmp_path / name for name in (("cpu", "memory") if version == 1 else ("unified",))]
    for root in roots:
        (root / "own" / "scope").mkdir(parents=True)
        (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    mounts = tmp_path / "mounts"
    lines = [f"cgroup2 {root} cgroup2 rw 0 0" for root in roots]
    if version == 1:
        options = zip(roots, ("cpu,cpuacct", "memory"), strict=True)
        lines = [f"cgroup {root} cgroup rw,relatime,{names} 0 0" for root, names in options]
    text = "\n".join(lines)
    mounts.write_text(f"tmpfs /dev/shm tmpfs rw 0 0\ncgroup {tmp_path} cgroup rw,cpuset 0 0\n{text}\n")
    monkeypatch.setattr(control_groups, "_MOUNTS", mounts)
    monkeypatch.setattr(control_groups, "_PROC", tmp_path / "proc")
    in_group(tmp_path, "/own/scope", version)
    return roots[0]


def root_of(controller: Controller) -> Path:
    return hierarchy(controller).root


def in_group(tmp_path: Path, group: str, version: int, pid: int = 0) -> int:
    """A process in a group; by default this one."""
    pid = pid or os.getpid()
    folder = tmp_path / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    unified, v1 = ("/", group) if version == 1 else (group, "/elsewhere")
    v1_lines = [f"4:memory:{v1}", f"3:cpuset:{v1}", f"2:cpu,cpuacct:{v1}"]
    lines = v1_lines if version == 1 else ["3:cpuset:/elsewhere"]
    (folder / "cgroup").write_text("\n".join([*lines, f"0::{unified}", ""]))
    return pid


both = pytest.mark.parametrize("root", [1, 2], indirect=True)


@both
@pytest.mark.parametrize("controller", Controller)
def test_the_hierarchy_with_the_controller_is_found_and_the_groups_in_it(
    controller: Controller, root: Path, tmp_path: Path
) -> None:
    groups = hierarchy(controller)
    root = tmp_path / ("unified" if groups.is_unified else controller.value)
    assert groups.root == root
    version = 2 if groups.is_unified else 1
    assert groups.group_of(in_group(tmp_path, "/docker/abc", version, PID)) == root / "docker/abc"
    # As a process shows whose group is outside of this name space.
    assert groups.group_of(in_group(tmp_path, "/../docker/abc", version, PID)) is None
    assert groups.group_of(PID + 1) is None
    assert groups.parents() == [root / "own/scope", root / "own", root]


@both
def test_a_limit_is_a_quota_of_each_period(root: Path) -> None:
    group = root / "own"
    cpu = hierarchy(Controller.CPU)
    files = {True: ("cpu.max",), False: ("cpu.cfs_quota_us", "cpu.cfs_period_us")}[cpu.is_unified]
    written = []
    for percent in (5, 0):
        cpu.set_limit(group, percent)
        written.append(" ".join((group / name).read_text().strip() for name in files))
    assert written == (["5000 100000", "max 100000"] if cpu.is_unified else ["5000 100000", "-1 100000"])


@both
@pytest.mark.parametrize("counts_swap", [True, False])
def test_a_limit_of_memory_leaves_a_mib_of_swap_where_swap_is_counted(counts_swap: bool, root: Path) -> None:
    memory = hierarchy(Controller.MEMORY)
    group = memory.root / "own"
    limit, swap = ("max", "swap.max") if memory.is_unified else ("limit_in_bytes", "memsw.limit_in_bytes")
    if counts_swap:
        (group / f"memory.{swap}").touch()
    written = []
    for megabytes in (64, 0):
        memory.set_limit(group, megabytes)
        written.append({path.name.partition(".")[2]: path.read_text().strip() for path in group.glob("memory.*")})
    none = "max" if memory.is_unified else "-1"
    swapped = MIB if memory.is_unified else 65 * MIB
    assert [each.pop(limit) for each in written] == [str(64 * MIB), none]
    assert [each.pop(swap, "") for each in written] == ([str(swapped), none] if counts_swap else ["", ""])
    assert written == [{}, {}]


@pytest.mark.parametrize("version", MEMORY)
def test_what_the_kernel_states_of_memory_is_read(version: int, tmp_path: Path) -> None:
    for name, text in MEMORY[version].items():
        (tmp_path / name).write_text(text)
    assert memory_in(tmp_path) == MemoryCounts(limit=64 * MIB, used=5 * MIB, met=12, ended=3)
    limit = tmp_path / next(iter(MEMORY[version]))
    limit.write_text("max\n" if version == 2 else "9223372036854771712\n")
    unlimited = memory_in(tmp_path)
    assert unlimited is not None
    assert unlimited.limit is None
    (tmp_path / list(MEMORY[version])[-1]).unlink()
    assert memory_in(tmp_path) is None
    assert memory_in(tmp_path / "gone") is None


@pytest.mark.parametrize("text", [STAT, UNIFIED_STAT])
def test_what_the_kernel_counts_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text(text)
    assert counts_in(tmp_path) == Counts(34, 28)
    # Without the controller, version 2 shows times alone.
    (tmp_path / "cpu.stat").write_text("usage_usec 900\nuser_usec 600\nsystem_usec 300\n")
    assert counts_in(tmp_path) is None
    assert counts_in(tmp_path / "gone") is None


@both
@pytest.mark.parametrize(
    ("kind", "controller", "others"),
    [
        (HostFaultKind.CPU_LIMIT, Controller.CPU, "docker or simulated"),
        (HostFaultKind.MEMORY_LIMIT, Controller.MEMORY, "docker"),
    ],
)
def test_where_no_group_can_be_made_the_reason_is_one_line(
    kind: HostFaultKind, controller: Controller, others: str, root: Path
) -> None:
    with pytest.raises(EnvironmentFault) as fault:
        require_groups([kind])
    text, nearest = str(fault.value), root_of(controller) / "own/scope"
    start = f"{kind} on processes: no control group with the controller {controller} can be made: {nearest}: "
    assert text.startswith(start)
    assert text.endswith(f"or use --runtime {others}")
    assert "\n" not in text


def test_no_group_is_tried_for_other_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "_MOUNTS", tmp_path / "none")
    require_groups([HostFaultKind.DISK_FULL])
    with pytest.raises(FileNotFoundError):
        require_groups([HostFaultKind.DISK_FULL, HostFaultKind.MEMORY_LIMIT])


def test_a_machine_without_the_controller_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    monkeypatch.setattr(control_groups, "_MOUNTS", mounts)
    with pytest.raises(EnvironmentFault, match=r"^cpu-limit on processes: no control groups with the controller cpu"):
        require_groups([HostFaultKind.CPU_LIMIT])


@both
@pytest.mark.parametrize("controllers", [[Controller.CPU], [Controller.MEMORY], list(Controller)])
def test_a_process_joins_its_groups_before_it_becomes_the_member(
    controllers: list[Controller], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_groups, "_make", lambda path, _: path.mkdir())
    group = MemberGroup("a run's member", controllers)
    # In version 2 one group has all controllers.
    assert len(group.paths) == len({root_of(controller) for controller in controllers})
    assert {group.path(each).parent for each in controllers} == {root_of(each) / "own/scope" for each in controllers}
    done = run_program(group.command(["sh", "-c", 'echo $$ "$1"', "sh", "a b"]))
    for path in group.paths:
        assert done.stdout.split() == [(path / "cgroup.procs").read_text().strip(), "a", "b"]
        (path / "cgroup.procs").unlink()
    group.close()
    assert not any(path.exists() for path in group.paths)


@both
def test_a_limit_that_the_kernel_refuses_says_what_to_use(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_groups, "_make", lambda path, _: path.mkdir())
    group = MemberGroup("a run's member", [Controller.MEMORY])
    version = 2 if hierarchy(Controller.MEMORY).is_unified else 1
    for name, text in MEMORY[version].items():
        (group.path(Controller.MEMORY) / name).write_text(text)

    def refuse(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", refuse)
        use = "use megabytes=6 or more, not 4"
        with pytest.raises(UnknownOutcome, match=rf"^memory-limit: member 1 uses 5\.0 MiB, of which .*: {use}$"):
            group.limit_memory(1, 4)


@both
def test_a_group_is_made_in_the_next_parent_that_takes_one(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_groups, "_make", lambda path, _: path.mkdir())
    cpu = Controller.CPU
    in_group(tmp_path, "/own/removed", 2 if hierarchy(cpu).is_unified else 1)
    assert MemberGroup("a run's member", [cpu]).path(cpu).parent == root / "own"


@both
def test_groups_of_harnesses_that_are_gone_are_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://nowhere")
    owner, session = Owner.me(), root / "user/session"
    ended = Owner("1", "never", owner.place)
    outer = session / f"upheaval-run-member-1 {ended}"
    places = dict.fromkeys((outer, session, root / "own/scope", root, root_of(Controller.MEMORY)))
    gone = [folder / outer.name for folder in places]
    busy = root / f"upheaval-run-member-2 {ended}"
    kept = [
        busy,
        root / "upheaval",
        root / "upheaval-made by hand",
        session / f"another-run-member-1 {ended}",
        session / f"upheaval-run-member-0 {owner}",
        session / f"upheaval-run-member-1 {Owner('1', 'never', 'another machine')}",
    ]
    for group in (*gone, *kept):
        group.mkdir(parents=True, exist_ok=True)
    # The kernel refuses to remove a group with processes.
    (busy / "process").touch()
    assert main(["clean", "--dry-run"]) == 0
    assert {f"would remove group {group}" for group in gone} <= set(capsys.readouterr().out.splitlines())
    assert main(["clean"]) == 0
    lines = capsys.readouterr().out.splitlines()
    removed = [line for line in lines if str(root.parent) in line and line.startswith("removed")]
    assert sorted(removed) == sorted(f"removed group {group}" for group in gone)
    assert any(line.startswith(f"left alone: {busy}: ") for line in lines)
    assert not any(group.exists() for group in gone)
    assert all(group.exists() for group in kept)
