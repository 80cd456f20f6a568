"""Aeron Cluster: three members of the harness on loopback, loaded by a small Java client with a window of requests."""

import json
import shutil
import subprocess
from pathlib import Path

from bench.figures import Figures
from bench.own import MESSAGE_LENGTH, WARM_UP_NS, request_of, running_cluster
from upheaval.aeron_jars import USUAL_VERSION, jar
from upheaval.aeron_programs import java_line
from upheaval.errors import HarnessError
from upheaval.system import AERON
from upheaval_node.types import S

SOURCE = Path(__file__).resolve().parents[1] / "aeron_load" / "WindowLoad.java"


def missing() -> str | None:
    """What this machine lacks to measure Aeron, or None."""
    programs = [p for p in ("java", "javac") if shutil.which(p) is None]
    if programs:
        return f"Aeron is not measured: {', '.join(programs)} not found"
    try:
        jar()
    except HarnessError as error:
        return f"Aeron is not measured: {error}"
    return None


def build_loader(folder: Path) -> Path:
    """Compile the Java client into `folder`."""
    subprocess.run(["javac", "-cp", str(jar()), "-d", str(folder), str(SOURCE)], check=True)
    return folder


def measure(loader: Path, window: int, seconds: float, *, sync_level: int, rate: int = 0) -> Figures:
    """One round on a fresh cluster: with a rate, an open loop of that many messages a second instead of a window."""
    with running_cluster(
        profile="aeron", sync_level=sync_level, service="workbench", system=f"{AERON}:{USUAL_VERSION}"
    ) as cluster:
        endpoints = ",".join(f"{member}={endpoint}" for member, endpoint in cluster.ingress_endpoints().items())
        given = (endpoints, request_of(MESSAGE_LENGTH).hex(), str(window), str(WARM_UP_NS / S), str(seconds))
        given += (str(rate),) if rate else ()
        command = java_line([str(jar()), str(loader)], "WindowLoad", *given)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + seconds)
    if done.returncode:
        raise RuntimeError(f"the Aeron client failed: {done.stderr.strip()[-300:]}")
    return Figures(**json.loads(done.stdout))
