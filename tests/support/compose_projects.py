"""Names of compose projects that say whose they are, and the removal of those whose owner is gone.

Compose labels what it makes with the project's name and with nothing of ours.
"""

import hashlib
import itertools
import re
from collections.abc import Callable
from typing import Final

from upheaval.runtimes.docker.engine import Client
from upheaval.runtimes.owner import Owner

PROJECT: Final = "com.docker.compose.project"
PREFIX: Final = "upheaval-test"
_numbers = itertools.count()


def new_name(owner: Owner | None = None) -> str:
    """A name for a project of this process, or of another one."""
    owner = owner or Owner.me()
    return "-".join([PREFIX, owner.pid, owner.start, _digest(owner.place), str(next(_numbers))])


def is_abandoned(name: str) -> bool:
    """Whether a test run had that project and has certainly ended."""
    match = re.fullmatch(rf"{PREFIX}-(\d+)-(\d+)-([0-9a-f]+)-\d+", name)
    if match is None:
        return False
    pid, start, place = match.groups()
    here = Owner.me().place
    return place == _digest(here) and Owner(pid, start, here).is_gone


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def remove_abandoned(engine: Client) -> None:
    """Remove what killed test runs left of their projects."""
    _remove(engine, PROJECT, is_abandoned)


def remove_project(engine: Client, name: str) -> None:
    """Remove all that there is of one project."""
    _remove(engine, f"{PROJECT}={name}", lambda _: True)


def _remove(engine: Client, label: str, is_wanted: Callable[[str], bool]) -> None:
    """Containers first: networks and volumes that are in use cannot be removed."""
    filters = {"label": label}
    for container in engine.api.containers(all=True, filters=filters):
        if is_wanted(container["Labels"][PROJECT]):
            engine.api.remove_container(container["Id"], force=True, v=True)
    for network in engine.api.networks(filters=filters):
        if is_wanted(network["Labels"][PROJECT]):
            engine.api.remove_network(network["Id"])
    for volume in engine.api.volumes(filters=filters)["Volumes"] or ():
        if is_wanted(volume["Labels"][PROJECT]):
            engine.api.remove_volume(volume["Name"], force=True)


def left_of_project(engine: Client, name: str) -> list[str]:
    """What the engine still has of a project."""
    filters = {"label": f"{PROJECT}={name}"}
    return [
        *(container["Id"] for container in engine.api.containers(all=True, filters=filters)),
        *(network["Id"] for network in engine.api.networks(filters=filters)),
        *(volume["Name"] for volume in engine.api.volumes(filters=filters)["Volumes"] or ()),
    ]
