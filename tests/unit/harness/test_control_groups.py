"""Control groups of both versions, in folders that are laid out as the kernel lays out its own."""

import os
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval.errors import EnvironmentFault
from upheaval.runtimes import control_groups
from upheaval.runtimes.control_groups import Counts, MemberGroup, counts_in, hierarchy, require_groups
from upheaval.runtimes.owner import Owner
from upheaval_chaos.programs import run_program

PID = 4711
STAT = "nr_periods 34\nnr_throttled 28\nthrottled_time 679288439\nnr_bursts 0\n"
UNIFIED_STAT = "usage_usec 900\nuser_usec 600\nsystem_usec 300\n" + STAT.replace("throttled_time", "throttled_usec")


@pytest.fixture
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mounted hierarchy, of the version that a test is for; this process is in the group `own/scope`."""
    version = request.param
    root = tmp_path / ("cpu" if version == 1 else "unified")
    (root / "own" / "scope").mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    mounts = tmp_path / "mounts"
    line = f"cgroup {root} cgroup rw,relatime,cpu,cpuacct 0 0" if version == 1 else f"cgroup2 {root} cgroup2 rw 0 0"
    mounts.write_text(f"tmpfs /dev/shm tmpfs rw 0 0\ncgroup {tmp_path} cgroup rw,cpuset 0 0\n{line}\n")
    monkeypatch.setattr(control_groups, "_MOUNTS", mounts)
    monkeypatch.setattr(control_groups, "_PROC", tmp_path / "proc")
    in_group(tmp_path, "/own/scope", version)
    return root


def in_group(tmp_path: Path, group: str, version: int, pid: int = 0) -> int:
    """A process in a group; by default this one."""
    pid = pid or os.getpid()
    folder = tmp_path / "proc" / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    unified, v1 = ("/", group) if version == 1 else (group, "/elsewhere")
    lines = [f"3:cpuset:{v1}", f"2:cpu,cpuacct:{v1}"] if version == 1 else ["3:cpuset:/elsewhere"]
    (folder / "cgroup").write_text("\n".join([*lines, f"0::{unified}", ""]))
    return pid


both = pytest.mark.parametrize("root", [1, 2], indirect=True)


@both
def test_the_hierarchy_with_the_controller_is_found_and_the_groups_in_it(root: Path, tmp_path: Path) -> None:
    found = hierarchy()
    assert found.root == root
    version = 2 if found.is_unified else 1
    assert found.group_of(in_group(tmp_path, "/docker/abc", version, PID)) == root / "docker/abc"
    # As a process shows whose group is outside of this name space.
    assert found.group_of(in_group(tmp_path, "/../docker/abc", version, PID)) is None
    assert found.group_of(PID + 1) is None
    assert found.parents() == [root / "own/scope", root / "own", root]


@both
def test_a_limit_is_a_quota_of_each_period(root: Path) -> None:
    group = root / "own"
    files = {True: ("cpu.max",), False: ("cpu.cfs_quota_us", "cpu.cfs_period_us")}[hierarchy().is_unified]
    written = []
    for percent in (5, 0):
        hierarchy().set_limit(group, percent)
        written.append(" ".join((group / name).read_text().strip() for name in files))
    assert written == (["5000 100000", "max 100000"] if hierarchy().is_unified else ["5000 100000", "-1 100000"])


@pytest.mark.parametrize("text", [STAT, UNIFIED_STAT])
def test_what_the_kernel_counts_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text(text)
    assert counts_in(tmp_path) == Counts(34, 28)
    # Without the controller, version 2 shows times alone.
    (tmp_path / "cpu.stat").write_text("usage_usec 900\nuser_usec 600\nsystem_usec 300\n")
    assert counts_in(tmp_path) is None
    assert counts_in(tmp_path / "gone") is None


@both
def test_where_no_group_can_be_made_the_reason_is_one_line(root: Path) -> None:
    with pytest.raises(EnvironmentFault) as fault:
        require_groups()
    text, nearest = str(fault.value), root / "own/scope"
    assert text.startswith(f"cpu-limit on processes: no control group for the processor can be made: {nearest}: ")
    assert text.endswith("or use --runtime docker or simulated")
    assert "\n" not in text


def test_a_machine_without_the_controller_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n")
    monkeypatch.setattr(control_groups, "_MOUNTS", mounts)
    with pytest.raises(EnvironmentFault, match=r"^cpu-limit on processes: no control groups with the controller cpu"):
        require_groups()


@both
def test_a_process_joins_its_group_before_it_becomes_the_member(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemberGroup, "_make", lambda group: group.path.mkdir())
    group = MemberGroup("a run's member")
    assert group.path.parent == root / "own/scope"
    done = run_program(group.command(["sh", "-c", 'echo $$ "$1"', "sh", "a b"]))
    assert done.stdout.split() == [(group.path / "cgroup.procs").read_text().strip(), "a", "b"]
    (group.path / "cgroup.procs").unlink()
    group.close()
    assert not group.path.exists()


@both
def test_a_group_is_made_in_the_next_parent_that_takes_one(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MemberGroup, "_make", lambda group: group.path.mkdir())
    in_group(tmp_path, "/own/removed", 2 if hierarchy().is_unified else 1)
    assert MemberGroup("a run's member").path.parent == root / "own"


@both
def test_groups_of_harnesses_that_are_gone_are_removed(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://nowhere")
    owner, session = Owner.me(), root / "user/session"
    ended = Owner("1", "never", owner.place)
    outer = session / f"upheaval-run-member-1 {ended}"
    gone = [folder / outer.name for folder in (outer, session, root / "own/scope", root)]
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
    removed = [line for line in lines if str(root) in line and line.startswith("removed")]
    assert sorted(removed) == sorted(f"removed group {group}" for group in gone)
    assert any(line.startswith(f"left alone: {busy}: ") for line in lines)
    assert not any(group.exists() for group in gone)
    assert all(group.exists() for group in kept)
