"""Volumes for members: file systems in memory whose size can change during use.

A volume is mounted on a folder of a member. When it is given up, its files are copied into that folder. Its source
names the harness that mounted it, so that a later harness can save the files of a killed one.
"""

import contextlib
import errno
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from upheaval.errors import EnvironmentFault, UnknownOutcome
from upheaval.records import owned_folder
from upheaval.records.folder_lock import locked
from upheaval.runtimes.owner import Owner
from upheaval_chaos.programs import run_program

VOLUME_BYTES: Final = 1 << 30
"""The size of a volume that is not filled on purpose, in bytes. It uses memory only for written data."""
_SOURCE: Final = "upheaval-volume "
_MOUNTS: Final = Path("/proc/self/mounts")
_FILL_ATTEMPTS: Final = 500
_TRIED: Final = ".room"
_TRIED_BYTES: Final = 4096
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_HINT: Final = "run as root, or under `unshare --user --map-root-user --mount`"


class Volume:
    """The volume that is, or will be, mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filled = folder.with_name(f"{folder.name}.volume")
        """A file that is there while the volume is mounted and has what the folder had."""
        self._saved = folder.with_name(f"{folder.name}.saved")
        """A complete copy of the volume, from before the unmount until it is the folder."""
        self._most_used = 0

    def mount(self) -> None:
        """Create the folder and move its files into the volume. Raises `EnvironmentFault` without the right to
        mount.
        """
        with locked(self.folder.parent):
            self._put_saved_back()
        self.folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{self.folder.name}-", dir=self.folder.parent) as name:
            _copy(self.folder, Path(name))
            options = f"size={VOLUME_BYTES},mode=755"
            try:
                _run("mount", "-t", "tmpfs", "-o", options, f"{_SOURCE}{Owner.me()}", str(self.folder))
                _copy(Path(name), self.folder)
                self._filled.touch()
            except BaseException:
                # The files below the mount are complete, and a save would replace them by a part of them.
                if self.folder.is_mount():
                    _unmount(self.folder)
                raise

    def fill(self) -> None:
        """Shrink the volume to its contents. Raises `UnknownOutcome` when the contents grow faster than that."""
        for _ in range(_FILL_ATTEMPTS):
            # The kernel refuses a size below the used bytes: the member has written meanwhile.
            with contextlib.suppress(EnvironmentFault):
                self._resize(self._used())
                return
        raise UnknownOutcome(f"the volume on {self.folder} grows faster than its size can be set")

    def free(self) -> None:
        """Restore the original size."""
        self._resize(VOLUME_BYTES)

    def save(self) -> None:
        """Unmount the volume and keep its files in the folder. If they do not fit, raises `EnvironmentFault` and stays
        mounted.

        Another harness may save the same volume at the same time. The second one finds nothing left to do. After an
        interruption, the next call goes on. If a harness was killed while it filled the volume, the folder's own files
        are the complete ones.
        """
        with locked(self.folder.parent):
            try:
                if self.folder.is_mount():
                    if self._filled.exists():
                        self._copy_out()
                    _unmount(self.folder)
            finally:
                if not self.folder.is_mount():
                    self._put_saved_back()

    def _copy_out(self) -> None:
        part = self.folder.with_name(f"{self.folder.name}.part")
        for old in (part, self._saved):
            shutil.rmtree(old, ignore_errors=True)
        part.mkdir()
        _copy(self.folder, part)
        part.rename(self._saved)

    def _put_saved_back(self) -> None:
        """Replace the folder, on which nothing is mounted, by the copy of the volume, if there is one."""
        if self._saved.exists():
            old = self.folder.with_name(f"{self.folder.name}.old")
            shutil.rmtree(old, ignore_errors=True)
            if self.folder.exists():
                self.folder.rename(old)
            self._saved.rename(self.folder)
            shutil.rmtree(old)
        self._filled.unlink(missing_ok=True)

    # --- observer ---

    def most_used(self) -> int:
        """The highest number of used bytes over all calls. It grows only when the volume has room for more than before:
        replacing a file by one of the same size does not count.
        """
        self._most_used = max(self._most_used, self._used())
        return self._most_used

    def has_room(self) -> bool:
        """Whether this process can write bytes there. They are removed again."""
        return takes_bytes(self.folder)

    def _used(self) -> int:
        status = os.statvfs(self.folder)
        return (status.f_blocks - status.f_bfree) * status.f_frsize

    def _resize(self, size: int) -> None:
        _run("mount", "-o", f"remount,size={size}", str(self.folder))


def takes_bytes(folder: Path) -> bool:
    """Whether a file can be written there now. The file is removed again."""
    path = folder / _TRIED
    try:
        path.write_bytes(bytes(_TRIED_BYTES))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise EnvironmentFault(f"cannot try the disk of {folder}: {error.strerror}") from error
        return False
    finally:
        path.unlink(missing_ok=True)
    return True


def require_volumes() -> None:
    """Raises `EnvironmentFault` when no volume can be mounted here."""
    with owned_folder("volume") as place:
        volume = Volume(place / "tried")
        volume.mount()
        volume.save()


def abandoned_volumes() -> list[Volume]:
    """The volumes of harnesses that are certainly gone."""
    volumes = []
    for line in _MOUNTS.read_text(encoding="utf-8", errors="replace").splitlines():
        source, folder, *_ = (_OCTAL.sub(lambda octal: chr(int(octal[1], 8)), field) for field in line.split(" "))
        if source.startswith(_SOURCE) and Owner.parse(source.removeprefix(_SOURCE)).is_gone:
            volumes.append(Volume(Path(folder)))
    return volumes


def save_abandoned() -> None:
    """Save the abandoned volumes that this user can save. The others harm no new run: `upheaval clean` names them."""
    for volume in abandoned_volumes():
        with contextlib.suppress(EnvironmentFault, OSError):
            volume.save()


def _copy(source: Path, target: Path) -> None:
    _run("cp", "-a", "--sparse=always", f"{source}/.", str(target))


def _unmount(folder: Path) -> None:
    # Lazily: a process that still reads a file of the volume must not keep the run from ending.
    _run("umount", "--lazy", str(folder))


def _run(*command: str) -> None:
    try:
        done = run_program(command)
    except OSError as error:
        raise EnvironmentFault(f"cannot run {command[0]}: {error.strerror}") from error
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        hint = f": {_HINT}" if command[0] == "mount" else ""
        raise EnvironmentFault(f"cannot {command[0]} a volume: {why}{hint}")
