"""The specification of a cluster of real members, kept in `cluster.json` so that any later command can use it.

This module handles files; it starts nothing.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from upheaval.checkers.own.own_model_process import load_model, require_promises, shown_error
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.judged_promises import module_of, require_judged
from upheaval.python_path import on_python_path
from upheaval.records import (
    CLUSTER_FILE,
    MEMBERS_MAX,
    SPLIT,
    TOGETHER,
    FieldError,
    Json,
    RunFolder,
    cluster_text,
    jsonfields,
    read_schema,
    write_atomically,
)
from upheaval.runtimes.ports import LOWEST_PORT, highest_base_port
from upheaval.security import policy as security
from upheaval.system import ClusterSpec, check_system
from upheaval_node import __version__
from upheaval_node.errors import NodeError
from upheaval_node.suggestions import did_you_mean

FORMAT: Final = 1
ROOM_MIN: Final = 64 << 20
"""The bytes of free disk space that a run needs."""
_REQUIRED: Final = ("run_id", "members", "components", "profile", "sync_level", "service", "base_port")


def check(spec: ClusterSpec, runtime: str) -> None:
    """Raises `UsageError` for a specification that could never start, in one clear line and before any process
    starts.
    """
    if not 1 <= spec.members <= MEMBERS_MAX:
        raise UsageError(f"--members {spec.members}: a cluster has 1 to {MEMBERS_MAX} members")
    if spec.components not in (TOGETHER, SPLIT):
        hint = did_you_mean(spec.components, (TOGETHER, SPLIT))
        raise UsageError(f"--components {spec.components!r}: use {TOGETHER} or {SPLIT}{hint}")
    if spec.tls:
        security.require_certificates(Path(spec.tls), security.names_needed(spec.members))
    if spec.credentials:
        security.require_credentials_file(Path(spec.credentials))
    if spec.schema:
        _check_schema(spec)
    check_system(spec, runtime)
    if spec.model:
        _check_model(spec)
    elif spec.is_service_here:
        require_judged({module_of(spec.service)}, ())


def _check_schema(spec: ClusterSpec) -> None:
    if ":" not in spec.service:
        raise UsageError(f"schema {spec.schema}: a schema is for a custom service, {spec.service} has its own")
    read_schema(spec.schema)


def _check_model(spec: ClusterSpec) -> None:
    if ":" not in spec.service:
        raise UsageError(f"model {spec.model!r}: a model is for a custom service, {spec.service} has its own")
    if not spec.source:
        # The image brings the service: the model is only located when it is needed.
        return
    try:
        with on_python_path((spec.source,)):
            if load_model(spec.model) is None:
                require_promises(spec.model)
    except NodeError as error:
        raise UsageError(str(error)) from error
    except Exception as error:
        raise UsageError(f"model {spec.model!r}: {shown_error(error)}") from error


def save(spec: ClusterSpec, runtime: str, folder: Path) -> None:
    """Write `cluster.json`. This removes the seal of the run."""
    RunFolder(folder).unseal()
    fields = {"format": FORMAT, "runtime": runtime, "folder": str(folder.absolute()), **asdict(spec)}
    write_atomically(folder / CLUSTER_FILE, jsonfields.to_json(fields) + "\n")


def runtime_of(folder: Path) -> str:
    """The runtime of the cluster in a folder; empty when the folder has no cluster, or its file is unreadable."""
    return cluster_text(folder, "runtime")


def system_of(folder: Path) -> str:
    """The system under test of the cluster in a folder; empty as for `runtime_of`."""
    return cluster_text(folder, "system")


def start_of(folder: Path) -> tuple[str, str, str]:
    """The launcher, the JVM options and the folder of the code of the cluster in a folder; empty as for
    `runtime_of`.
    """
    return cluster_text(folder, "launcher"), cluster_text(folder, "jvm"), cluster_text(folder, "source")


def load(folder: Path) -> ClusterSpec:
    """Read `cluster.json`. Raises `UsageError` when it is missing, malformed, of another version or of another
    folder.
    """
    path = folder / CLUSTER_FILE
    if not path.is_file():
        raise UsageError(f"{folder} holds no cluster (it has no {CLUSTER_FILE}): start one with `upheaval up --dir`")
    try:
        fields = jsonfields.parse_object(jsonfields.read_text(path))
        _require_version(path, fields)
        _require_folder(folder, fields)
        spec = jsonfields.decode(ClusterSpec, fields, _REQUIRED)
        jsonfields.integer_within(fields, "base_port", LOWEST_PORT, highest_base_port(spec.members))
        return spec
    except FieldError as error:
        raise UsageError(f"{path}: {error}") from None


def has_cluster(folder: Path) -> bool:
    """Whether the folder holds a cluster, running or not."""
    return (folder / CLUSTER_FILE).is_file()


def require_usable(folder: Path) -> None:
    """Raises `HarnessError` when no new cluster can be made in this folder: no permission, not empty, or too little
    disk space.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        names = sorted(entry.name for entry in folder.iterdir())
    except NotADirectoryError:
        raise UsageError(f"{folder} is not a folder: give another --dir") from None
    except FileExistsError:
        raise UsageError(f"{folder} is a file: give another --dir") from None
    except OSError as error:
        raise EnvironmentFault(f"cannot use the folder {folder}: {error.strerror}") from error
    if names:
        raise UsageError(f"{folder} holds no cluster and is not empty ({names[0]}): give an empty or a new folder")
    require_room(folder)


def require_room(folder: Path) -> None:
    """Raises `EnvironmentFault` when the folder is not writable or its disk is too full, so that a run would be lost at
    its end.

    Raises `UsageError` when the folder's name is not UTF-8.
    """
    name = str(folder.absolute())
    if not jsonfields.is_utf8(name):
        raise UsageError(f"the name of {name!a} is not UTF-8: give another folder")
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not os.access(place, os.W_OK | os.X_OK):
        raise EnvironmentFault(f"no permission to write in {place}")
    free = shutil.disk_usage(place).free
    if free < ROOM_MIN:
        raise EnvironmentFault(f"the disk of {place} has {free >> 20} MiB left: a run needs {ROOM_MIN >> 20} MiB")


def _require_version(path: Path, fields: Mapping[str, Json]) -> None:
    """Raises `UsageError` unless this version is of the series (major and minor version) that made the folder."""
    number = jsonfields.integer(fields, "format")
    version = jsonfields.text(fields, "version")
    if number != FORMAT or version.split(".")[:2] != __version__.split(".")[:2]:
        raise UsageError(
            f"{path.parent} was made by upheaval {version} (format {number}), this is {__version__} (format {FORMAT}): "
            "use that version or a new folder"
        )


def _require_folder(folder: Path, fields: Mapping[str, Json]) -> None:
    """Raises `UsageError` for a copy: its processes and configurations are those of the folder that was copied."""
    if "folder" not in fields:
        return
    made_in = jsonfields.text(fields, "folder")
    try:
        is_same = folder.samefile(made_in)
    except OSError:
        is_same = False
    if not is_same:
        raise UsageError(f"{folder} was made in {made_in}: a cluster runs only there, so use that folder or a new one")
