"""Members as processes of this machine, for the tests of the process runtime."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from upheaval.records.added_lines import AddedLines
from upheaval.runtimes import ports
from upheaval_node import counters as counter_types
from upheaval_node.runtime.shared_counters import attach_cnc

SPLIT = ("archive", "consensus", "service")
TOGETHER = ("all",)
ENDPOINTS_A_MEMBER = 5
PATIENCE_S = 240.0
LEADER = 2
ELECTION_CLOSED = 17


def wait_until(
    condition: Callable[[], object],
    patience_s: float = PATIENCE_S,
    describe: Callable[[], object] = lambda: "the condition never came true",
) -> float:
    """Wait for a condition on other processes; returns how long it took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < patience_s, f"{describe()} (waited {patience_s:g} s)"
        # Other processes need the processor more than this one: give it away between two looks.
        signal.sigtimedwait([], 0.01)
    return time.monotonic() - begin


def free_ports(count: int) -> list[int]:
    """Ports on which no other process of this machine starts a cluster meanwhile."""
    members = -(-count // ENDPOINTS_A_MEMBER)
    base_port = ports.choose_base_port(members)
    return [port for member_id in range(members) for port in ports.member_ports(base_port, member_id)][:count]


class Members:
    """A cluster's members: their folders, configurations and processes."""

    def __init__(self, folder: Path, count: int = 1, components: tuple[str, ...] = TOGETHER, **fields: object) -> None:
        self.folder = folder
        self.components = components
        self.environment: dict[str, str] = {}
        self.processes: dict[tuple[int, str], subprocess.Popen[bytes]] = {}
        self._all: list[subprocess.Popen[bytes]] = []
        ports = free_ports(count * ENDPOINTS_A_MEMBER)
        self.endpoints = [
            [f"127.0.0.1:{port}" for port in ports[first : first + ENDPOINTS_A_MEMBER]]
            for first in range(0, len(ports), ENDPOINTS_A_MEMBER)
        ]
        members = "|".join(f"{index},{','.join(each)}" for index, each in enumerate(self.endpoints))
        for index in range(count):
            values = {
                "member_id": index,
                "members": members,
                "folder": f"member-{index}",
                "service": "register",
                "profile": "test",
                **fields,
            }
            self.config(index).write_text(json.dumps(values))

    def configure(self, member_id: int, **fields: object) -> None:
        """Change fields of one member's configuration; it takes effect at the next start."""
        path = self.config(member_id)
        path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    def config(self, member_id: int) -> Path:
        return self.folder / f"member-{member_id}.json"

    def path(self, member_id: int) -> Path:
        return self.folder / f"member-{member_id}"

    @property
    def ingress(self) -> dict[int, str]:
        return {index: each[0] for index, each in enumerate(self.endpoints)}

    def start(self, member_id: int, component: str = "all") -> "subprocess.Popen[bytes]":
        python_path = [path for path in sys.path if path.endswith("/node")]
        process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "upheaval_node.runtime.main"),
                *("--config", str(self.config(member_id))),
                *("--component", component),
            ],
            env={"PYTHONPATH": ":".join(python_path), "PATH": os.environ["PATH"], **self.environment},
            stderr=subprocess.PIPE,
        )
        self.processes[member_id, component] = process
        self._all.append(process)
        return process

    def start_all(self) -> None:
        for member_id in range(len(self.endpoints)):
            self.start_member(member_id)

    def start_member(self, member_id: int) -> None:
        for component in self.components:
            self.start(member_id, component)

    def of_member(self, member_id: int) -> list["subprocess.Popen[bytes]"]:
        return [process for (each, _), process in self.processes.items() if each == member_id]

    def end(self) -> None:
        for process in self._all:
            process.kill()
        for process in self._all:
            process.wait()
            assert process.stderr is not None
            process.stderr.close()

    def counter(self, member_id: int, type_id: int) -> int | None:
        """What a member publishes; None while its driver does not live."""
        cnc = attach_cnc(str(self.path(member_id) / "aeron" / "cnc.dat"))
        if cnc is None:
            return None
        counter = cnc.counters((0, 0)).find(type_id)
        cnc.close()
        return None if counter is None else counter.get()

    def leader(self) -> int | None:
        """The member that leads and whose election is over."""
        for index in range(len(self.endpoints)):
            role = self.counter(index, counter_types.CLUSTER_NODE_ROLE)
            state = self.counter(index, counter_types.ELECTION_STATE)
            if role == LEADER and state == ELECTION_CLOSED:
                return index
        return None

    def wait_until_leader(self) -> int:
        wait_until(lambda: self.leader() is not None, describe=lambda: f"no leader: {self.shown()}")
        leader = self.leader()
        assert leader is not None
        return leader

    def shown(self) -> list[str]:
        """What is seen of each process, and the last line of each trace."""
        ends = [f"{component} of {member}: {each.poll()}" for (member, component), each in self.processes.items()]
        traces = [self.path(member) / "trace.jsonl" for member in range(len(self.endpoints))]
        return ends + [line.decode() for path in traces for line in [*AddedLines([path])()][-1:]]

    def stalled_s(self, member_id: int) -> float:
        """The longest stall of a process of the member: a bound on time that it explains is not called broken."""
        found = [line["stall_ns"] for line in self.trace(member_id) if line["event"] == "loop-stall"]
        return max((each for each in found if isinstance(each, int)), default=0) / 1e9

    def trace(self, member_id: int) -> list[dict[str, object]]:
        return [json.loads(line) for line in AddedLines([self.path(member_id) / "trace.jsonl"])() if line]


def ended(process: "subprocess.Popen[bytes]", patience_s: float = PATIENCE_S) -> tuple[int, str]:
    """Exit status and stderr of a process, once it has ended."""
    _, errors = process.communicate(timeout=patience_s)
    return process.returncode, errors.decode()
