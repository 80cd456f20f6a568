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

    def remove_all(self) -> None:
        """Put an empty disk into the host."""
        self.member.replace_disk()

    def names(self) -> Sequence[str]:
        """The paths of all visible files."""
        return self.member.disk.paths

    def read(self, name: str) -> bytes:
        """The visible content of a file."""
        return self.member.disk.read(name)
