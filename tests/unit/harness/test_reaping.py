"""Several harnesses end what a killed one left: one at a time, and all of it even if one of them is killed."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from upheaval.records import FORCED_END, Manifest, RunFolder, seal
from upheaval.records.folder_lock import locked
from upheaval.runtimes import abandoned
from upheaval.runtimes.abandoned import FOLDER_VARIABLE, OWNER_VARIABLE
from upheaval.runtimes.owner import Owner
from upheaval.system.process_table import MEMBER_VARIABLE, RUN_ID_VARIABLE, is_stopped, processes_of
from upheaval.waits import wait_until

REAPER = "from upheaval.runtimes.abandoned import end_abandoned; end_abandoned()"
MEMBER = "print(flush=True); import sys; sys.stdin.read()"
# A tracer that looks at none of its tracee's stops, as one does that is stopped itself.
TRACED = f"""
import ctypes, subprocess, sys
member = subprocess.Popen([sys.executable, "-c", {MEMBER!r}], stdout=subprocess.PIPE)
member.stdout.readline()
seize = ctypes.CDLL(None).ptrace
seize.argtypes = [ctypes.c_long] * 4
print(seize(0x4206, member.pid, 0, 0), flush=True)
sys.stdin.read()
"""
# Within vfork(2) no signal reaches the parent but SIGKILL. This child has its own memory, so Python may go on in it.
UNSTOPPABLE = f"""
import ctypes, os, signal
clone = {{"x86_64": 56, "aarch64": 220}}[os.uname().machine]
ctypes.CDLL(None).syscall(clone, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0)
{MEMBER}
"""
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def begin(program: str, **variables: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-c", program]
        environment = {**os.environ, **variables}
        started.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("is_first_killed", [False, True])
def test_a_harness_waits_for_what_another_one_is_ending(is_first_killed: bool, tmp_path: Path, start: Start) -> None:
    """The lock of the run folder holds up the first one at its record. Another test's harness may be that one."""
    run, run_id = RunFolder(tmp_path), f"reaped-{os.getpid()}"
    run.create(Manifest(run_id, "process", 1, "test", 0))
    seal(run)
    with locked(run.path):
        member = start(MEMBER, **left_by_a_gone_harness(run))
        first = start(REAPER)
        wait_until(
            lambda: member.poll() is not None or is_stopped(member.pid),
            timeout_s=240,
            describe=lambda: f"the member goes on; the harness has ended with {first.poll()}",
        )
        second = start(REAPER)
        wait_until(
            lambda: second.poll() is not None or second.pid in waiting_for_locks(),
            timeout_s=240,
            describe=lambda: "the second harness neither waits nor ends",
        )
        assert second.poll() is None
        if is_first_killed:
            first.kill()
            first.wait()
    assert second.wait(240) == 0
    assert first.wait(240) == (-signal.SIGKILL if is_first_killed else 0)
    assert processes_of(run_id) == []
    assert [(each.what, list(each.members)) for each in run.read_controls()] == [(FORCED_END, ["0"])]


def test_neither_a_live_harness_nor_another_run_loses_a_member_to_the_end_of_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: Start
) -> None:
    runs = [RunFolder(tmp_path / name) for name in ("one", "other")]
    for run in runs:
        run.create(Manifest(f"{run.path.name}-{os.getpid()}", "process", 1, "test", 0))
    one, other = map(left_by_a_gone_harness, runs)
    # In this turn no other test's harness ends any of them.
    with abandoned.turn():
        ended = start(MEMBER, **one)
        spared = [start(MEMBER, **one | {OWNER_VARIABLE: str(Owner.me())}), start(MEMBER, **other)]
        monkeypatch.setattr(abandoned, "SHARED_MEMORY", tmp_path)
        assert abandoned.end_abandoned(one[RUN_ID_VARIABLE]) == [one[RUN_ID_VARIABLE]]
        assert ended.wait(240) == -signal.SIGKILL
        assert [member.poll() for member in spared] == [None, None]


def test_members_of_a_run_that_cannot_be_recorded_are_ended(tmp_path: Path, start: Start) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest(f"unrecorded-{os.getpid()}", "process", 1, "test", 0))
    seal(run)
    variables = left_by_a_gone_harness(run)
    run.manifest_file.write_text("{")
    member = start(MEMBER, **variables)
    assert start(REAPER).wait(240) == 0
    assert member.wait(240) == -signal.SIGKILL


@pytest.mark.parametrize("program", [TRACED, UNSTOPPABLE], ids=["traced", "in vfork"])
def test_members_that_do_not_stop_are_recorded_and_ended(program: str, tmp_path: Path, start: Start) -> None:
    run = RunFolder(tmp_path)
    run.create(Manifest(f"moving-{os.getpid()}", "process", 1, "test", 0))
    seal(run)
    variables = left_by_a_gone_harness(run)
    member = start(program, **variables)
    assert member.stdout is not None
    assert member.stdout.readline() != b"-1\n", "this test needs the permission to trace"
    assert start(REAPER).wait(240) == 0
    assert member.wait(240) == -signal.SIGKILL
    assert processes_of(variables[RUN_ID_VARIABLE]) == []
    assert [(each.what, list(each.members)) for each in run.read_controls()] == [(FORCED_END, ["0"])]


def test_the_name_of_the_lock_in_other_hands_holds_no_harness_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abandoned, "SHARED_MEMORY", tmp_path)
    with abandoned.turn():
        (folder,) = tmp_path.iterdir()
        assert folder.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    folder.touch()
    with abandoned.turn():
        pass


def test_a_harness_names_the_one_that_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(abandoned, "SHARED_MEMORY", tmp_path)
    monkeypatch.setattr(abandoned, "_SILENT_S", 0.01)

    def wait() -> None:
        with abandoned.turn():
            pass

    waiting = threading.Thread(target=wait, daemon=True)
    with abandoned.turn():
        waiting.start()
        wait_until(
            lambda: "upheaval: waits for process " in capsys.readouterr().err,
            timeout_s=240,
            describe=lambda: "nothing is printed",
        )
    waiting.join(240)
    assert not waiting.is_alive()


def left_by_a_gone_harness(run: RunFolder) -> dict[str, str]:
    """The variables of member 0 of the run."""
    return {
        RUN_ID_VARIABLE: run.read_manifest().run_id,
        MEMBER_VARIABLE: "0",
        OWNER_VARIABLE: str(replace(Owner.me(), start="1")),
        FOLDER_VARIABLE: str(run.path),
    }


def waiting_for_locks() -> list[int]:
    """The processes that wait for a lock; see proc_locks(5)."""
    fields = (line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines())
    return [int(each[5]) for each in fields if each[1] == "->"]
