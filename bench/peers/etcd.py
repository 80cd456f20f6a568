"""etcd: three members on loopback, loaded by a small Go client with many concurrent puts of 64 bytes."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

from bench.figures import Figures
from bench.processes import free_ports, running

LOADER = Path(__file__).resolve().parents[1] / "etcd_load"


def missing() -> str | None:
    """What this machine lacks to measure etcd, or None."""
    programs = [p for p in ("etcd", "go") if shutil.which(p) is None]
    return f"etcd is not measured: {', '.join(programs)} not found" if programs else None


def build_loader(folder: Path) -> Path:
    """Compile the Go client into `folder`."""
    target = folder / "etcd_load"
    subprocess.run(["go", "build", "-o", str(target), "."], cwd=LOADER, check=True)
    return target


def member_commands(folder: Path, clients: list[int], peers: list[int]) -> list[list[str]]:
    initial = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
    return [
        [
            "etcd",
            f"--name=m{i}",
            f"--data-dir={folder}/m{i}",
            f"--listen-client-urls=http://127.0.0.1:{clients[i]}",
            f"--advertise-client-urls=http://127.0.0.1:{clients[i]}",
            f"--listen-peer-urls=http://127.0.0.1:{peers[i]}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peers[i]}",
            f"--initial-cluster={initial}",
            "--logger=zap",
            "--log-level=error",
        ]
        for i in range(3)
    ]


def measure(loader: Path, clients: int, seconds: float) -> Figures:
    """One round on a fresh cluster. The client waits for the cluster by itself."""
    with tempfile.TemporaryDirectory(prefix="bench-etcd-", dir="/var/tmp") as name:
        folder = Path(name)
        ports = free_ports(6)
        with running(member_commands(folder, ports[:3], ports[3:]), folder / "log"):
            endpoints = ",".join(f"127.0.0.1:{port}" for port in ports[:3])
            done = subprocess.run(
                [str(loader), f"-endpoints={endpoints}", f"-clients={clients}", f"-duration={seconds}s", "-warmup=2s"],
                capture_output=True,
                text=True,
                timeout=60 + seconds,
            )
        if done.returncode:
            raise RuntimeError(f"the etcd client failed: {done.stderr.strip()[-300:]}")
        return Figures(**json.loads(done.stdout))
