"""What is seen of a process that has other threads than its main one, as Java's have."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from upheaval.errors import UnknownOutcome
from upheaval.system.process_table import (
    RUN_ID_VARIABLE,
    FoundProcess,
    context_switches,
    is_stopped,
    processes_of,
    send_signal,
    wait_until_gone,
)
from upheaval.waits import wait_until

Start = Callable[[str], subprocess.Popen[bytes]]
# The main thread waits without a turn; another one takes some, until the process ends.
_OTHER_THREAD_WORKS = """
    import sys, threading, time
    def work():
        for _ in range(10 ** 9):
            time.sleep(0.002)
    threading.Thread(target=work, daemon=True).start()
    print("there", flush=True)
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""
_MAIN_THREAD_ENDS = """
    import ctypes, sys, threading
    threading.Thread(target=sys.stdin.read).start()
    print("there", flush=True)
    ctypes.CDLL(None).pthread_exit(None)
"""


@pytest.fixture
def run_id() -> str:
    return f"table-{os.getpid()}"


@pytest.fixture
def start(run_id: str) -> Iterator[Start]:
    made: list[subprocess.Popen[bytes]] = []

    def begin(program: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", textwrap.dedent(program)]
        environment = {**os.environ, RUN_ID_VARIABLE: run_id}
        made.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment))
        assert made[-1].stdout is not None
        assert made[-1].stdout.readline() == b"there\n"
        return made[-1]

    yield begin
    for process in made:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()


def test_turns_of_every_thread_count_and_a_stop_holds_all_of_them(start: Start, run_id: str) -> None:
    pid = start(_OTHER_THREAD_WORKS).pid
    before = context_switches(pid)
    wait_until(lambda: context_switches(pid) > before + 10, timeout_s=240, describe=lambda: "no thread takes turns")
    assert is_stopped(pid) is False
    send_signal(processes_of(run_id), signal.SIGSTOP)
    wait_until(lambda: is_stopped(pid), timeout_s=240, describe=lambda: "not stopped")
    before = context_switches(pid)
    with pytest.raises(UnknownOutcome):
        wait_until(lambda: context_switches(pid) != before, timeout_s=0.2, describe=lambda: "stopped")
    send_signal(processes_of(run_id), signal.SIGCONT)
    wait_until(lambda: context_switches(pid) > before, timeout_s=240, describe=lambda: "does not go on")
    assert is_stopped(pid) is False


def test_a_process_is_there_until_its_last_thread_has_ended(start: Start, run_id: str) -> None:
    process = start(_MAIN_THREAD_ENDS)
    found = FoundProcess(process.pid, -1, "")
    stat = Path(f"/proc/{process.pid}/stat")
    wait_until(
        lambda: ") Z " in stat.read_text(encoding="utf-8"), timeout_s=240, describe=lambda: "the main thread goes on"
    )
    with pytest.raises(UnknownOutcome):
        wait_until_gone([found], run_id, timeout_s=0.2)
    assert process.stdin is not None
    process.stdin.close()
    wait_until_gone([found], run_id, timeout_s=240)
    assert process.poll() is not None
