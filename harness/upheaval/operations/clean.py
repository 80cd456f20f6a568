"""Finds what abandoned runs left on this machine (processes, containers, temporary folders), and old run folders.

A thing is abandoned if its harness is certainly gone and it was not meant to outlive the harness. Whatever is alive,
was started by `upheaval up`, or cannot be judged from here is left alone.
"""

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from upheaval.errors import EnvironmentFault, HarnessError
from upheaval.records import Manifest, RunFolder, abandoned_folders
from upheaval.runtime_names import DOCKER
from upheaval.runtimes.abandoned import abandoned_drivers, abandoned_runs, end_abandoned, remove_drivers
from upheaval.runtimes.control_groups import abandoned_groups
from upheaval.runtimes.volumes import abandoned_volumes
from upheaval.system.aeron_files import driver_directories
from upheaval.system.process_table import processes_of


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing found; `kind` is process, container, network, volume, group, folder or run."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Left:
    """Something that was left alone, and why."""

    what: str
    why: str


def clean(*, runs: Path | None, older_s: float, is_dry: bool) -> Iterator[Leftover | Left]:
    """Yield each leftover, and remove it unless `is_dry`. Looks for old run folders only below `runs`."""
    for run_id, run in sorted(abandoned_runs().items()):
        for process in run.processes:
            who = f"member {process.member_id}" if process.member_id >= 0 else "a companion"
            yield Leftover("process", f"{process.pid} ({who} of run {run_id})")
        for directory in driver_directories(run_id) if run.is_whole else ():
            yield Leftover("folder", str(directory))
    if not is_dry:
        end_abandoned()
    for directory in abandoned_drivers(is_dry=is_dry):
        if not is_dry:
            shutil.rmtree(directory, ignore_errors=True)
        yield Leftover("folder", str(directory))
    for volume in abandoned_volumes():
        try:
            if not is_dry:
                volume.save()
        except (HarnessError, OSError) as error:
            yield Left(str(volume.folder), str(error))
        else:
            yield Leftover("volume", str(volume.folder))
    for group in abandoned_groups():
        try:
            if not is_dry:
                group.rmdir()
        except OSError as error:
            yield Left(str(group), str(error.strerror))
        else:
            yield Leftover("group", str(group))
    yield from _in_engine(is_dry=is_dry)
    for folder in abandoned_folders(remove=not is_dry):
        yield Leftover("folder", str(folder))
    if runs is not None:
        yield from _old_runs(runs, older_s, is_dry=is_dry)


def _in_engine(*, is_dry: bool) -> Iterator[Leftover | Left]:
    from upheaval.runtimes.docker import labels
    from upheaval.runtimes.docker.engine import connected

    try:
        with connected() as client:
            if is_dry:
                yield from (Leftover(kind, name) for kind, name in labels.abandoned(client))
                return
            for removal in labels.remove_abandoned(client):
                yield (
                    Left(f"{removal.kind} {removal.name}", removal.why)
                    if removal.why
                    else Leftover(removal.kind, removal.name)
                )
    except EnvironmentFault as error:
        yield Left("containers", str(error))


def _old_runs(runs: Path, older_s: float, *, is_dry: bool) -> Iterator[Leftover | Left]:
    now_s = time.time()
    for folder in _run_folders(runs):
        if isinstance(folder, Left):
            yield folder
            continue
        try:
            manifest = RunFolder(folder).read_manifest()
            if now_s - _changed_s(folder) < older_s:
                continue
            why = _lives(manifest)
            if not why and not is_dry:
                remove_drivers(manifest.run_id)
                shutil.rmtree(folder)
        except (HarnessError, OSError) as error:
            why = str(error)
        yield Left(str(folder), why) if why else Leftover("run", str(folder))


def _run_folders(runs: Path) -> Iterator[Path | Left]:
    """The run folders directly in `runs`, those in its folders that are not runs themselves, such as campaigns, and
    the folders that cannot be read.
    """
    try:
        folders = _folders_in(runs) if runs.is_dir() else []
    except OSError as error:
        yield Left(str(runs), str(error))
        return
    for folder in folders:
        try:
            is_run = RunFolder(folder).manifest_file.is_file()
            inner = () if is_run else [path for path in _folders_in(folder) if RunFolder(path).manifest_file.is_file()]
        except OSError as error:
            yield Left(str(folder), str(error))
            continue
        yield from (folder,) if is_run else inner


def _folders_in(parent: Path) -> list[Path]:
    return [path for path in sorted(parent.iterdir()) if path.is_dir() and not path.is_symlink()]


def _changed_s(folder: Path) -> float:
    """When the newest file of the run or of its members was changed, in seconds since the epoch."""
    return max(path.stat().st_mtime for pattern in ("*", "*/*") for path in (folder, *folder.glob(pattern)))


def _lives(manifest: Manifest) -> str:
    """Why a run may still be going on; empty if it is not."""
    if processes_of(manifest.run_id):
        return "its members run"
    if manifest.runtime != DOCKER or manifest.sealed is not None:
        return ""
    from upheaval.runtimes.docker import labels
    from upheaval.runtimes.docker.engine import connected

    with connected() as client:
        return "the engine has containers of it" if labels.is_there(client, manifest.run_id) else ""
