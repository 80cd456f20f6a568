"""Aeron's own programs, run on folders of members. Needs Java and the jar that `tools/aeron_jar.py` fetches."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from aeron_jar import JAR
from upheaval.shared_classes import sharing_options

CHECKSUM = "io.aeron.archive.checksum.Crc32"

# What Agrona reaches into; and a virtual machine that starts fast.
_JAVA = (
    "java",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.util.zip=ALL-UNNAMED",
)
_TIMEOUT_S = 240


@dataclass(frozen=True)
class Answer:
    """What a program said and how it ended."""

    status: int
    text: str


def java(program: str, *arguments: str, properties: dict[str, object] | None = None) -> Answer:
    """Run a class of the jar until it ends."""
    done = subprocess.run(
        java_command(program, *arguments, properties=properties),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_TIMEOUT_S,
    )
    return Answer(done.returncode, done.stdout)


def java_command(program: str, *arguments: str, properties: dict[str, object] | None = None) -> list[str]:
    """What runs a class of the jar."""
    settings = [f"-D{name}={value}" for name, value in (properties or {}).items()]
    shared = sharing_options(Path(shutil.which("java") or "java"), JAR)
    return [*_JAVA, *shared, *settings, "-cp", str(JAR), program, *arguments]


def archive_tool(member: Path, *command: str) -> Answer:
    return java("io.aeron.archive.ArchiveTool", str(member / "archive"), *command)


def cluster_tool(member: Path, *command: str) -> Answer:
    return java("io.aeron.cluster.ClusterTool", str(member / "cluster"), *command)


def archive_properties(folder: Path) -> dict[str, object]:
    """An archive of Aeron's in `folder`, with its own media driver and no ports of its own."""
    return {
        "aeron.archive.dir": folder / "archive",
        "aeron.dir": folder / "java-aeron",
        "aeron.dir.delete.on.shutdown": "true",
        "aeron.archive.control.channel.enabled": "false",
        "aeron.archive.control.channel": "aeron:ipc",
        "aeron.archive.control.response.channel": "aeron:ipc",
        "aeron.archive.replication.channel": "aeron:udp?endpoint=localhost:0",
    }


def fields_of(text: str, name: str) -> list[dict[str, str]]:
    """What Aeron prints as `[name](...):key=value|key='text'` or `name{key=value, ...}`, a table for each."""
    found = []
    for line in text.splitlines():
        head = f"[{name}]("
        if head in line:
            body = line.partition(head)[2].partition("):")[2]
            found.append(_fields(body, "|"))
        found += [_fields(part.partition("}")[0], ", ") for part in line.split(f"{name}{{")[1:]]
    return found


def _fields(body: str, separator: str) -> dict[str, str]:
    """Texts in quotes may hold the separator."""
    table: dict[str, str] = {}
    while body:
        name, _, rest = body.partition("=")
        if rest.startswith("'"):
            value, _, body = rest[1:].partition("'")
            body = body.removeprefix(separator)
        else:
            value, _, body = rest.partition(separator)
        table[name] = value
    return table
