"""The files of a member in its volume, while its containers do not run. Implements `upheaval_chaos.target.Files`.

The engine copies whole files in and out of a stopped container. Files are removed by a container that runs only for
that.
"""

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from upheaval.errors import UnknownOutcome
from upheaval.runtimes.docker import collect
from upheaval.runtimes.docker.containers import MEMBER_USER
from upheaval.runtimes.docker.engine import Client, engine_errors
from upheaval.runtimes.member_files import FOLDERS


@dataclass(frozen=True, slots=True)
class VolumeFiles:
    """`container` finds a container of the member, running or not."""

    client: Client
    container: Callable[[], Any | None]
    volume: str
    image: str
    folder: PurePosixPath
    labels: Mapping[str, str]

    def overwrite(self, name: str, offset: int, content: bytes) -> None:
        """Replace bytes of a file, whose length stays."""
        old = self.read(name)
        self.rewrite(name, old[:offset] + content + old[offset + len(content) :])

    def rewrite(self, name: str, content: bytes) -> None:
        """Replace the content of a file."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode, entry.uid, entry.gid = len(content), 0o644, MEMBER_USER, MEMBER_USER
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.addfile(entry, io.BytesIO(content))
        container = self._there()
        with engine_errors(f"changing {name} of {container.name}"):
            container.put_archive(str(self.folder), packed.getvalue())

    def remove(self, names: Sequence[str]) -> None:
        """Remove files."""
        self._run("rm", *(str(self.folder / name) for name in names))

    def remove_all(self) -> None:
        """Remove every file in the folders of archive and cluster."""
        self._run("find", *(str(self.folder / name) for name in FOLDERS), "-mindepth", "1", "-delete")

    def _run(self, *command: str) -> None:
        with engine_errors(f"removing files of {self.volume}"):
            self.client.containers.run(
                self.image,
                list(command),
                entrypoint=[],
                labels=dict(self.labels),
                network_mode="none",
                remove=True,
                volumes={self.volume: {"bind": str(self.folder), "mode": "rw"}},
            )

    def names(self) -> Sequence[str]:
        """The paths of all files in the member's folder."""
        return sorted(name for folder in FOLDERS for name in self._names_in(folder))

    def read(self, name: str) -> bytes:
        """The content of a file."""
        return collect.read_file(self._there(), str(self.folder / name))

    def _names_in(self, folder: str) -> list[str]:
        return collect.names_in(self._there(), str(self.folder), folder)

    def _there(self) -> Any:
        container = self.container()
        if container is None:
            raise UnknownOutcome(f"{self.volume} has no container: start the member once")
        return container
