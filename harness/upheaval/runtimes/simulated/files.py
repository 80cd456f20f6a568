"""The files on the disk of one simulated member. Implements `upheaval_chaos.target.Files`."""

from collections.abc import Sequence
from dataclasses import dataclass

from upheaval.runtimes.simulated.cluster import SimulatedMember


@dataclass(frozen=True, slots=True)
class SimulatedFiles:
    """The disk of a member without a process."""

    member: SimulatedMember

    def overwrite(self, name: str, offset: int, content: bytes) -> None:
        """Replace bytes without a write of any process."""
        self.member.disk.change_bytes(name, offset, content)

    def rewrite(self, name: str, content: bytes) -> None:
        """Replace the content of a file, durably."""
        inode = self.member.disk.find(name)
        inode.write(0, content)
        inode.truncate(len(content))
        inode.end_sync(inode.begin_sync())
        self.member.disk.commit_names(lambda path, _inode: path == name)

    def remove(self, names: Sequence[str]) -> None:
        """Remove files, durably."""
        for name in names:
            self.member.disk.remove(name)
        self.member.disk.commit_names(lambda path, _inode: path in names)

    def remove_all(self) -> None:
        """Put an empty disk into the host."""
        self.member.replace_disk()

    def names(self) -> Sequence[str]:
        """The paths of all visible files."""
        return self.member.disk.paths

    def read(self, name: str) -> bytes:
        """The visible content of a file."""
        return self.member.disk.read(name)
