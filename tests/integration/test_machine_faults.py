"""Faults of machines on members in processes: proved when they were done, and not when the injector did nothing, hit
another member or did not heal. What members had of machines of their own is gone afterwards, and their files are not.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support import hoard
from support.fault_cases import fault_of
from support.live_clusters import ROOT
from support.machine_rounds import PRESENT
from support.saboteur import OF_ALL, Sabotage
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.execution.machines import machine_kinds, require_amounts, require_machines
from upheaval.records import RunFolder
from upheaval.runtimes import process_machines
from upheaval.runtimes.control_groups import Controller, MemberGroup, hierarchy
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.owner import Owner
from upheaval.runtimes.process_machines import ProcessMachines
from upheaval.system import system_named
from upheaval.testing.cluster import Cluster
from upheaval_chaos.host_faults import ON_PROCESSES, HostFault, HostFaultKind
from upheaval_chaos.programs import run_program

STATEMENTS = {
    HostFaultKind.DISK_FULL: "disk-full follower",
    HostFaultKind.DISK_SLOW: "disk-slow follower latency-ms=1000",
    HostFaultKind.CLOCK_JUMP: "clock-jump follower jump-ms=20000",
    HostFaultKind.CPU_LIMIT: "cpu-limit follower percent=2",
    HostFaultKind.MEMORY_LIMIT: f"memory-limit follower {PRESENT}",
}


def as_root(folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """A Python program that may mount, in a name space of its own, where others see nothing of that."""
    unshare = shutil.which("unshare")
    assert unshare is not None, "unshare is part of util-linux"
    return subprocess.run(
        [unshare, "--user", "--map-root-user", "--mount", sys.executable, *arguments],
        cwd=ROOT / "tests",
        env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


def test_every_kind_is_tried() -> None:
    assert set(STATEMENTS) == set(ON_PROCESSES)


@pytest.mark.heavy
@pytest.mark.parametrize(
    "kinds",
    [
        (HostFaultKind.DISK_FULL, HostFaultKind.DISK_SLOW),
        # It needs Debian's faketime.
        pytest.param((HostFaultKind.CLOCK_JUMP,), marks=pytest.mark.nightly),
        # They need control groups that root may make.
        pytest.param((HostFaultKind.CPU_LIMIT, HostFaultKind.MEMORY_LIMIT), marks=pytest.mark.nightly),
    ],
    ids=" ".join,
)
def test_only_what_was_done_is_proved(kinds: Sequence[HostFaultKind], tmp_path: Path) -> None:
    run = tmp_path / "run"
    rounds = [word for kind in kinds for how in OF_ALL for word in (STATEMENTS[kind], how)]
    done = as_root(tmp_path, "-m", "support.machine_rounds", str(run), *rounds)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert [(statement, how, is_proved) for statement, how, is_proved, _ in lines] == [
        (STATEMENTS[kind], how, how is Sabotage.NONE) for kind in kinds for how in OF_ALL
    ]
    # The volumes were there alone; their files are in the run folder now.
    assert sorted(path.name for path in run.glob("member-*/archive/0-0.rec")) == ["0-0.rec"] * 3
    run_id = RunFolder(run).read_manifest().run_id
    assert groups_of(run_id) == []


def groups_of(run_id: str) -> list[Path]:
    roots = {hierarchy(controller).root for controller in Controller}
    return [group for root in roots for group in root.rglob(f"upheaval-{run_id[:12]}-*")]


# It needs control groups that root may make.
@pytest.mark.heavy
@pytest.mark.nightly
@pytest.mark.parametrize("components", ["together", "split"])
def test_a_member_that_the_kernel_ended_for_want_of_memory_comes_back(
    components: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, run = hoard.source_in(tmp_path / "source"), tmp_path / "run"
    machines = ["memory-limit", "cpu-limit"]
    with Cluster(hoard.SERVICE, source, components=components, machines=machines, folder=run) as cluster:
        hoard.require_refused(cluster)
        hoard.require_one_ended(cluster, used_by, monkeypatch)
    assert groups_of(RunFolder(run).read_manifest().run_id) == []


def used_by(cluster: AnyCluster, member_id: int) -> int:
    machines = cluster.hosts("look", HostFaultKind.MEMORY_LIMIT)
    assert isinstance(machines, ProcessMachines)
    return machines._groups[member_id].memory().used


INNER = """
from upheaval.runtimes.control_groups import Controller, MemberGroup
group = MemberGroup("inner", [Controller.CPU])
group.limit(Controller.CPU, 90)
print(group.path(Controller.CPU))
group.close()
"""


# It needs a control group that root may make.
@pytest.mark.nightly
def test_a_harness_with_a_limit_of_its_own_limits_its_members_to_more() -> None:
    tight = MemberGroup("tight", [Controller.CPU])
    (path,) = tight.paths
    try:
        tight.limit(Controller.CPU, 50)
        done = run_program(tight.command([sys.executable, "-c", INNER]), limit_s=300)
    finally:
        tight.close()
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{path.parent}/upheaval-inner")
    assert not path.exists()


VOLUME = """
import sys
from multiprocessing import Process
from pathlib import Path
from upheaval.operations.clean import clean
from upheaval.runtimes import volumes
from upheaval.runtimes.owner import Owner
from upheaval.system import system_named

folder, gone = Path(sys.argv[1]), Owner.parse(sys.argv[2])
(folder / "before").write_text("before")
volume = volumes.Volume(folder)
if gone.pid:
    Owner.me = classmethod(lambda _: gone)
volume.mount()
(folder / "inside").write_text("inside")
print(volume.has_room())
volume.fill()
size = volume.most_used()
print(volume.has_room())
try:
    (folder / "more").write_bytes(bytes(1 << 16))
    print("written")
except OSError as error:
    print(error.strerror)
print(volume.most_used() == size)
volume.free()
(folder / "more").write_bytes(bytes(1 << 16))
print(volume.has_room(), volume.most_used() > size)
left = [each.name for each in clean(runs=None, older_s=0, is_dry=True) if getattr(each, "kind", "") == "volume"]
# Other harnesses on this machine may leave some, too.
abandoned = [each for each in volumes.abandoned_volumes() if each.folder == folder]
print((str(folder) in left) == bool(abandoned) == bool(gone.pid))
savers = [Process(target=each.save) for each in (abandoned or [volume]) * 2]
for saver in savers:
    saver.start()
for saver in savers:
    saver.join()
print([saver.exitcode for saver in savers])
print("upheaval-volume" in Path("/proc/self/mounts").read_text())
print(sorted(path.name for path in folder.iterdir()), sorted(path.name for path in folder.parent.iterdir()))
"""


@pytest.mark.parametrize("whose", ["own", "of a harness that is gone"])
def test_a_volume_is_filled_freed_and_saved(whose: str, tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    owner = Owner.me()
    gone = str(Owner("1", "never", owner.place)) if whose != "own" else "  "
    done = as_root(tmp_path, "-c", VOLUME, str(folder), gone)
    assert done.stdout.splitlines() == [
        "True",
        "False",
        "No space left on device",
        "True",
        "True True",
        "True",
        "[0, 0]",
        "False",
        "['before', 'inside', 'more'] ['volume']",
    ], done.stderr
    assert (folder / "inside").read_text() == "inside"


KILLED = """
import os, sys
from pathlib import Path
from upheaval.runtimes import volumes

folder, moment = Path(sys.argv[1]), sys.argv[2]
(folder / "log").write_text("before")
copy, unmount = volumes._copy, volumes._unmount

def die_in_copy(source, target):
    (target / "partial").touch()
    os._exit(9)

def die_in_fill(source, target):
    if target == folder:
        die_in_copy(source, target)
    copy(source, target)

def die_after_unmount(place):
    unmount(place)
    os._exit(9)

def killed(action, **changes):
    if not os.fork():
        vars(volumes).update(changes)
        action()
    os.wait()

volume = volumes.Volume(folder)
if moment == "filling":
    killed(volume.mount, _copy=die_in_fill)
else:
    volume.mount()
    (folder / "log").write_text("inside")
    killed(volume.save, **({"_copy": die_in_copy} if moment == "copying" else {"_unmount": die_after_unmount}))
print(folder.is_mount())
volumes.Volume(folder).save()
print(folder.is_mount(), (folder / "log").read_text(), [path.name for path in folder.iterdir()])
print([path.name for path in folder.parent.iterdir() if not path.name.startswith("volume-")])
"""


@pytest.mark.parametrize(
    ("moment", "is_mounted", "log"),
    [("filling", True, "before"), ("copying", True, "inside"), ("unmounted", False, "inside")],
)
def test_a_harness_that_is_killed_loses_no_files_of_a_volume(
    moment: str, is_mounted: bool, log: str, tmp_path: Path
) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    done = as_root(tmp_path, "-c", KILLED, str(folder), moment)
    assert done.stdout.splitlines() == [str(is_mounted), f"False {log} ['log']", "['volume']"], done.stderr


LEFT_ALONE = """
import subprocess, sys
from pathlib import Path
from upheaval.operations.clean import Left, Leftover, clean
from upheaval.records import Manifest, RunFolder
from upheaval.runtimes import volumes
from upheaval.runtimes.owner import Owner

place = Path(sys.argv[1])
gone = Owner.parse(sys.argv[2])
here = Owner.me
sealed = place / "sealed"
sealed.mkdir()
mount = lambda *arguments: subprocess.run(["mount", *arguments], check=True)
mount("--bind", str(sealed), str(sealed))
volume = volumes.Volume(sealed / "archive")
Owner.me = classmethod(lambda _: gone)
volume.mount()
Owner.me = here
mount("-o", "remount,bind,ro", str(sealed))
volumes.save_abandoned()
print("abandoned", volume.folder.is_mount())
runs = place / "runs"
for name in ("a", "b"):
    (runs / name).mkdir(parents=True)
    RunFolder(runs / name).create(Manifest(f"left-{name}", "process", 1, "test", 0))
(runs / "a" / "busy").mkdir()
mount("-t", "tmpfs", "none", str(runs / "a" / "busy"))
for item in clean(runs=runs, older_s=-1e9, is_dry=False):
    if isinstance(item, Left) and str(place) in item.what:
        print("left", Path(item.what).name, bool(item.why))
    elif isinstance(item, Leftover) and str(place) in item.name:
        print("removed", Path(item.name).name)
"""

TOO_SMALL = """
import sys
from pathlib import Path
from upheaval.errors import EnvironmentFault
from upheaval.runtimes import volumes

folder = Path(sys.argv[1])
volumes.VOLUME_BYTES = 1 << 16
volume = volumes.Volume(folder)
try:
    volume.mount()
except EnvironmentFault as error:
    print("No space left" in str(error))
print(folder.is_mount())
volume.save()
print((folder / "large").stat().st_size)
"""


def test_what_cannot_be_removed_is_left_and_the_rest_goes(tmp_path: Path) -> None:
    gone = str(Owner("1", "never", Owner.me().place))
    done = as_root(tmp_path, "-c", LEFT_ALONE, str(tmp_path), gone)
    assert done.stdout.splitlines() == ["abandoned True", "left archive True", "left a True", "removed b"], done.stderr


def test_files_that_do_not_fit_a_volume_stay_where_they_are(tmp_path: Path) -> None:
    folder = tmp_path / "volume"
    folder.mkdir()
    (folder / "large").write_bytes(b"x" * (1 << 18))
    done = as_root(tmp_path, "-c", TOO_SMALL, str(folder))
    assert done.stdout.splitlines() == ["True", "False", str(1 << 18)], done.stderr


def test_what_a_machine_lacks_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_machines, "_LIBRARIES", (str(tmp_path),))
    with pytest.raises(
        EnvironmentFault, match=r"^clock-jump needs libfaketimeMT\.so\.1: install Debian's package faketime$"
    ):
        require_machines("process", [HostFaultKind.CLOCK_JUMP], 0)


def test_slow_disks_need_members_that_sync(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^disk-slow on processes: members at sync level 0 do not sync their log"):
        Cluster(runtime="process", folder=tmp_path / "run", machines=["disk-slow"])
    assert not (tmp_path / "run").exists()


def test_machines_are_for_faults_that_need_some() -> None:
    assert machine_kinds(["disk-full"]) == [HostFaultKind.DISK_FULL]
    slow = fault_of("disk-slow follower latency-ms=1001")
    assert isinstance(slow, HostFault)
    with pytest.raises(UsageError, match=r"^disk-slow: expected latency-ms of 1 to 1000 on processes, got 1001$"):
        require_amounts(system_named("upheaval"), [slow])
    with pytest.raises(UsageError, match=r"^machines 'disk-ful': use clock-jump, disk-full, disk-slow"):
        machine_kinds(["disk-ful"])
