"""`upheaval tool` on a node of a cluster of containers, run inside its container by the node's own program.

The files of a node that is down are in the engine. The tool reads a copy of them, and changes them only after `upheaval
down` has brought them into the run folder.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from upheaval.errors import UnknownOutcome, UsageError
from upheaval.records import FieldError, companion_name, jsonfields, owned_folder
from upheaval.runtimes.docker import collect
from upheaval.runtimes.docker.cluster import DockerCluster
from upheaval.runtimes.docker.companion import DockerCompanion
from upheaval.runtimes.docker.container_state import is_running
from upheaval.runtimes.docker.inside import ATTEMPTS, run_inside
from upheaval.system import SystemInContainers
from upheaval_node.files import layout
from upheaval_node.tool.__main__ import Options, execute
from upheaval_node.tool.answer import Answer, Value
from upheaval_node.tool.commands import COMMANDS

_MEMBER: Final = "member-"
_HEAD: Final = ("command", "exit_status", "text")


def run_tool(run: Path, name: str, options: Options) -> Answer:
    """The answer for the node `name` of a run folder. Raises `HarnessError` and `NodeError` with one line."""
    with DockerCluster.open(run) as cluster:
        container = _container(cluster, name)
        system = cluster.system
        if container is None:
            # The engine has nothing of this node, so all its files are in the run folder.
            return execute(options)
        if is_running(container):
            return _inside(container, name, system, options)
        command = COMMANDS.get(options.words[1])
        if command is not None and command.changes:
            raise UsageError(f"{name} is not running, and its files are in the engine: `upheaval down` fetches them")
        with owned_folder("collected") as place:
            copy = place / "copy"
            collect.collect_folder(container, str(system.folder), copy)
            return execute(replace(options, words=[str(copy), *options.words[1:]], archive=None))


def _container(cluster: DockerCluster, name: str) -> Any | None:
    if name.startswith(_MEMBER):
        number = name.removeprefix(_MEMBER)
        if not (number.isascii() and number.isdigit() and int(number) < len(cluster.members)):
            raise UsageError(f"unknown {name}: this cluster has {len(cluster.members)} members")
        return cluster.members[int(number)].node.container()
    companion = cluster.companion(companion_name(name))
    assert isinstance(companion, DockerCompanion)
    return companion.node.container()


def _inside(container: Any, name: str, system: SystemInContainers, options: Options) -> Answer:
    words = [f"{system.folder}/{layout.CLUSTER_DIRECTORY}", *options.words[1:], "--json"]
    words += ["--timeout", str(options.timeout_ms / 1000)]
    words += [] if options.archive is None else ["--archive", options.archive]
    command = COMMANDS.get(options.words[1])
    attempts = 1 if command is not None and command.changes else ATTEMPTS
    doing = f"asking {name}"
    status, text = run_inside(container, [*system.tool_command, *words], doing, attempts=attempts, stderr=False)
    try:
        fields = jsonfields.parse_object(text)
    except FieldError as error:
        raise UnknownOutcome(f"{doing}: {error} (exit status {status})") from None
    lines = fields.get("text")
    values: Mapping[str, Value] = {key: value for key, value in fields.items() if key not in _HEAD}
    return Answer([str(line) for line in lines] if isinstance(lines, list) else [], values, status)
