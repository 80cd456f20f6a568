"""The files of a member in memory."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class HeldFiles:
    """Files in memory. Implements `upheaval_chaos.target.Files`."""

    content: dict[str, bytes] = field(default_factory=dict)

    def overwrite(self, name: str, offset: int, content: bytes) -> None:
        old = self.content[name]
        self.content[name] = old[:offset] + content + old[offset + len(content) :]

    def rewrite(self, name: str, content: bytes) -> None:
        self.content[name] = content

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            del self.content[name]

    def remove_all(self) -> None:
        self.content.clear()

    def names(self) -> Sequence[str]:
        return sorted(self.content)

    def read(self, name: str) -> bytes:
        return self.content[name]
