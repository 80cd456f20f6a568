"""Checks what this machine has of what commands need, and names the line that installs the rest. Changes nothing."""

import os
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from upheaval.aeron_jars import USUAL_VERSION, versions_at_hand
from upheaval.aeron_programs import has_classes
from upheaval.errors import EnvironmentFault, HarnessError, UsageError
from upheaval.extras import install_line
from upheaval.runtime_names import LIVE_SYSTEM
from upheaval_chaos.programs import run_program
from upheaval_node.suggestions import did_you_mean

_JAVA_LEAST: Final = 17
_SHARED_MEMORY: Final = Path("/dev/shm")
_CGROUPS: Final = {
    "version 2": Path("/sys/fs/cgroup/cgroup.controllers"),
    "version 1": Path("/sys/fs/cgroup/memory"),
}
_MB: Final = 1_000_000
_SHARED_LEAST_MB: Final = 256
_DISK_LEAST_MB: Final = 2000


@dataclass(frozen=True, slots=True)
class Need:
    """One requirement: whether it is met, the details, what uses it, and what to do if it is missing."""

    area: str
    name: str
    is_there: bool
    detail: str
    used_by: str
    remedy: str = ""


def needs(area: str | None = None) -> list[Need]:
    """The requirements of one area, or of all. Raises `UsageError` for an unknown area."""
    if area is not None and area not in _AREAS:
        raise UsageError(f"unknown area {area!r}: use one of {', '.join(_AREAS)}{did_you_mean(area, _AREAS)}")
    return [need for name, look in _AREAS.items() if area in (None, name) for need in look(name)]


def _docker(area: str) -> Iterator[Need]:
    used_by = "--runtime docker, images"
    packages = _modules(area, "docker", ("docker", "testcontainers", "toxiproxy"), used_by)
    yield packages
    yield (
        _engine(area, used_by) if packages.is_there else Need(area, "engine", False, "not asked: see packages", used_by)
    )
    version = _output("docker", "compose", "version", "--short")
    yield Need(area, "compose", version is not None, version or "", "compose files", "install Docker's compose plugin")


def _engine(area: str, used_by: str) -> Need:
    from upheaval.runtimes.docker.engine import connected

    try:
        with connected() as client:
            return Need(area, "engine", True, str(client.version()["Version"]), used_by)
    except HarnessError as problem:
        return Need(area, "engine", False, str(problem), used_by, "install and start Docker (Debian: docker.io)")


def _aeron(area: str) -> Iterator[Need]:
    used_by = "--system aeron"
    version = java_version(_output("java", "-version") or "")
    fits = version is not None and version >= _JAVA_LEAST
    jdk = "apt-get install default-jdk-headless"
    yield Need(area, "java", fits, str(version or ""), used_by, jdk)
    try:
        present, compiled = versions_at_hand(), has_classes()
    except EnvironmentFault as problem:
        yield Need(area, "cache", False, str(problem), used_by, "set HOME or XDG_CACHE_HOME")
        return
    compiler = shutil.which("javac")
    detail = compiler or (f"not needed: classes for {USUAL_VERSION} are there" if compiled else "")
    yield Need(area, "javac", bool(detail), detail, used_by, jdk)
    maven = shutil.which("mvn")
    detail = f"jars {', '.join(present)}" if present else "Maven fetches it" if maven else ""
    remedy = f"--system aeron:PATH of a jar such as aeron-all-{USUAL_VERSION}.jar, or apt-get install maven"
    yield Need(area, "jar", bool(present or maven), detail, used_by, remedy)


def _links(area: str) -> Iterator[Need]:
    queue = Path("/proc/net/netfilter/nfnetlink_queue")
    remedy = "modprobe nfnetlink_queue, as root"
    yield Need(area, "NFQUEUE", queue.exists(), str(queue), "single datagrams, on containers", remedy)
    version = next((version for version, place in _CGROUPS.items() if place.exists()), "")
    yield Need(area, "cgroups", bool(version), version, "limits of containers", "mount -t cgroup2 none /sys/fs/cgroup")


def _host(area: str) -> Iterator[Need]:
    remedy = f"use {LIVE_SYSTEM}, or a virtual machine with it"
    yield Need(area, "system", platform.system() == LIVE_SYSTEM, platform.system(), "live clusters, members", remedy)
    for name, place, least_mb, used_by, remedy in (
        ("shared memory", _SHARED_MEMORY, _SHARED_LEAST_MB, "--system aeron", "mount -o remount,size=1g /dev/shm"),
        ("disk", Path.cwd(), _DISK_LEAST_MB, "run folders, images", "upheaval clean, or another --dir"),
    ):
        free_mb = shutil.disk_usage(place).free // _MB if place.is_dir() else 0
        yield Need(area, name, free_mb >= least_mb, f"{free_mb} MB free in {place}", used_by, remedy)
    sources = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
    clock = sources.read_text(encoding="utf-8").strip() if sources.is_file() else "unknown"
    yield Need(area, "clock", True, clock, "times of live runs")
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Need(area, "processors", True, str(processors), "live clusters")


def _lake(area: str) -> Iterator[Need]:
    names = ("deltalake", "duckdb", "numpy", "pyarrow", "sqlglot")
    yield _modules(area, "lake", names, "ingest, ask, query, --lake")


def _spark(area: str) -> Iterator[Need]:
    yield _modules(area, "spark", ("pyspark", "pandas", "pyarrow", "deltalake"), "--engine spark")


def _load(area: str) -> Iterator[Need]:
    yield _modules(area, "load", ("locust",), "upheaval load")


def _ui(area: str) -> Iterator[Need]:
    yield _modules(area, "ui", ("starlette", "uvicorn"), "upheaval ui")


def _modules(area: str, extra: str, names: tuple[str, ...], used_by: str) -> Need:
    missing = [name for name in names if find_spec(name) is None]
    detail = f"missing {', '.join(missing)}" if missing else ", ".join(names)
    return Need(area, "packages", not missing, detail, used_by, install_line(extra))


def java_version(output: str) -> int | None:
    """The major version in the output of `java -version`."""
    match = re.search(r'version "(?:1\.)?(\d+)', output)
    return None if match is None else int(match[1])


def _output(*command: str) -> str | None:
    """The output of a program; None if it fails or is missing."""
    if shutil.which(command[0]) is None:
        return None
    done = run_program(command, is_joined=True)
    return None if done.returncode else done.stdout.strip()


_AREAS: Final[Mapping[str, Callable[[str], Iterator[Need]]]] = {
    "docker": _docker,
    "aeron": _aeron,
    "links": _links,
    "host": _host,
    "lake": _lake,
    "spark": _spark,
    "load": _load,
    "ui": _ui,
}
