"""The return of a member of several components: all of them count, and of each any of its processes."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from upheaval.runtimes.process_node import ProcessNode
from upheaval.waits import wait_until
from upheaval_chaos.errors import UnknownOutcome
from upheaval_chaos.faults import MemberFault, MemberFaultKind, exactly

PARTS = ("archive", "consensus", "service")


class SplitNode:
    """A node of three processes. `heals` is how many of them start or go on. Stands in for a target, too."""

    member_ids = range(1)

    def __init__(self, heals: int) -> None:
        self._heals = heals
        self._ns = 0
        self._runs = {part: f"{part}/1" for part in PARTS}
        self._asleep: set[str] = set()

    def node(self, _: int) -> "SplitNode":
        return self

    def leader(self) -> int:
        return 0

    def incarnation(self, _: str | None = None) -> frozenset[str]:
        return frozenset(self._runs.values())

    def parts(self, _: str | None = None) -> dict[str, frozenset[str]]:
        return {part: frozenset([name]) for part, name in self._runs.items()}

    def turns(self, _: str | None = None) -> dict[str, int]:
        return {name: 0 if part in self._asleep else self._ns for part, name in self._runs.items()}

    def pause(self, _: str | None = None) -> None:
        self._asleep = set(PARTS)

    def resume(self, _: str | None = None) -> None:
        self._asleep = set(PARTS[self._heals :])

    def kill(self, _: str | None = None) -> None:
        self._runs = {}

    def start(self) -> None:
        self._runs = {part: f"{part}/2" for part in PARTS[: self._heals]}

    def now_ns(self) -> int:
        return self._ns

    def let_pass(self, seconds: float) -> None:
        self._ns += int(seconds * 1e9)

    def wait_until(self, condition: Any, timeout_s: float, what: str) -> None:
        self.let_pass(timeout_s)
        if not condition():
            raise UnknownOutcome(what)


@pytest.mark.parametrize("kind", [MemberFaultKind.PAUSE, MemberFaultKind.KILL])
@pytest.mark.parametrize("heals", range(4))
def test_a_member_is_back_when_all_its_processes_are(kind: MemberFaultKind, heals: int) -> None:
    target: Any = SplitNode(heals)
    injection = MemberFault(kind, exactly([0])).aim(target)
    injection.act()
    assert injection.prove().holds
    injection.heal()
    assert injection.prove_healed().holds == (heals == len(PARTS))


HELPED = """
import subprocess, sys, time
subprocess.Popen(["sleep", "600"])
while True:
    time.sleep(0.001)
"""
ALONE = "import time; time.sleep(600)"


class OneProcess:
    """A member whose program starts a helper in its first process only. Stands in for a target, too."""

    member_ids = range(1)

    def __init__(self) -> None:
        self._programs = [HELPED, ALONE]
        self._started: list[subprocess.Popen[bytes]] = []
        self._node = ProcessNode("member 0", uuid.uuid4().hex, 0, [""], self._spawn)
        self._node.start()
        wait_until(lambda: len(self._node.incarnation()) == 2, timeout_s=60, describe=lambda: "no helper")

    def _spawn(self, component: str) -> None:
        variables = {"RUN_ID": self._node.run_id, "MEMBER": "0", "COMPONENT": component}
        environment = os.environ | {f"UPHEAVAL_{name}": value for name, value in variables.items()}
        self._started.append(subprocess.Popen([sys.executable, "-c", self._programs.pop(0)], env=environment))

    def node(self, _: int) -> ProcessNode:
        return self._node

    def leader(self) -> int:
        return 0

    def close(self) -> None:
        for process in self._node.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        for started in self._started:
            started.wait()

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def let_pass(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def wait_until(self, condition: Any, timeout_s: float, what: str) -> None:
        wait_until(condition, timeout_s=timeout_s, describe=lambda: what)


@pytest.fixture
def helped() -> Iterator[OneProcess]:
    target = OneProcess()
    yield target
    target.close()


@pytest.mark.parametrize("kind", [MemberFaultKind.PAUSE, MemberFaultKind.KILL])
def test_a_member_is_back_whatever_its_helpers_do(kind: MemberFaultKind, helped: Any) -> None:
    """One that sleeps takes no turn after a pause, and after a start it may not be there yet."""
    injection = MemberFault(kind, exactly([0])).aim(helped)
    injection.act()
    assert injection.prove().holds
    injection.heal()
    assert injection.prove_healed().holds
