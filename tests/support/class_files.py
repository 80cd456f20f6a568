"""Class files of Java for tests that have no compiler: supertypes, members without code, and references to others."""

import struct
from collections.abc import Sequence

PUBLIC, ABSTRACT, INTERFACE = 0x0001, 0x0400, 0x0200
Member = tuple[str, str]
"""Name and descriptor."""


class _Constants:
    def __init__(self) -> None:
        self._indices: dict[bytes, int] = {}

    def add(self, entry: bytes) -> bytes:
        return struct.pack(">H", self._indices.setdefault(entry, len(self._indices) + 1))

    def text(self, text: str) -> bytes:
        return self.add(struct.pack(">BH", 1, len(text.encode())) + text.encode())

    def type(self, name: str) -> bytes:
        return self.add(b"\x07" + self.text(name))

    def method(self, owner: str, member: Member) -> bytes:
        signature = self.add(b"\x0c" + self.text(member[0]) + self.text(member[1]))
        return self.add(b"\x0a" + self.type(owner) + signature)

    def table(self) -> bytes:
        return struct.pack(">H", len(self._indices) + 1) + b"".join(self._indices)


def class_file(
    name: str,
    *,
    parent: str = "java/lang/Object",
    interfaces: Sequence[str] = (),
    methods: Sequence[Member] = (),
    is_interface: bool = False,
    calls: Sequence[tuple[str, Member]] = (),
) -> bytes:
    """The bytes of a class; methods of an interface are abstract. `calls` are methods of others that it refers to."""
    constants = _Constants()
    for owner, member in calls:
        constants.method(owner, member)
    flags = PUBLIC | (ABSTRACT | INTERFACE if is_interface else 0)
    body = struct.pack(">H", flags) + constants.type(name) + constants.type(parent)
    body += struct.pack(">H", len(interfaces)) + b"".join(map(constants.type, interfaces)) + struct.pack(">H", 0)
    body += struct.pack(">H", len(methods))
    for member in methods:
        of_method = PUBLIC | (ABSTRACT if is_interface else 0)
        body += struct.pack(">H", of_method) + constants.text(member[0]) + constants.text(member[1]) + bytes(2)
    return struct.pack(">IHH", 0xCAFEBABE, 0, 61) + constants.table() + body + bytes(2)
