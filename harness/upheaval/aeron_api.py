"""What compiled classes need of a jar that the jar has not: classes, methods and fields, by their names and types.

Java links them one by one while it runs, so a member that was compiled against another version would end in the middle
of its work. This reads class files as the Java Virtual Machine Specification has them (chapter 4) and runs nothing.
"""

import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from upheaval.errors import UsageError

_MAGIC: Final = 0xCAFEBABE
_UTF8, _CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 1, 7, 9, 10, 11, 12
_WIDE: Final = (5, 6)
"""long and double take two places in the table of constants."""
_LENGTHS: Final = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
"""Bytes of each kind of constant after its tag, but for texts."""
_ABSTRACT: Final = 0x0400
_OF_AERON: Final = ("io/aeron/", "org/agrona/")
_OBJECT: Final = "java/lang/Object"


@dataclass(frozen=True, slots=True)
class ClassFile:
    """One class: its supertypes, what it declares, and what it refers to in others."""

    name: str
    is_abstract: bool
    supertypes: tuple[str, ...]
    members: Mapping[tuple[str, str], bool]
    """Name and descriptor of methods and fields, and whether the method is abstract."""
    classes: frozenset[str]
    references: frozenset[tuple[str, str, str]]
    """Class, name and descriptor."""


class _Reader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._position = 0

    def number(self, length: int) -> int:
        return int.from_bytes(self.take(length), "big")

    def take(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if self._position > len(self._content):
            raise ValueError("a class file that ends too early")
        return self._content[start : self._position]


def parse_class(content: bytes) -> ClassFile:
    """Raises `ValueError` for bytes that are no class file."""
    reader = _Reader(content)
    if reader.number(4) != _MAGIC:
        raise ValueError("no class file")
    try:
        return _parsed(reader)
    except (KeyError, struct.error) as error:
        raise ValueError("a class file that names a missing constant") from error


def _parsed(reader: _Reader) -> ClassFile:
    """What comes after the magic number."""
    reader.take(4)
    constants = _constants(reader)

    def text(index: int) -> str:
        return constants[index][1].decode("utf-8", "replace")

    def class_name(index: int) -> str:
        return text(_first(constants[index][1]))

    flags = reader.number(2)
    name = class_name(reader.number(2))
    parent = reader.number(2)
    interfaces = [class_name(reader.number(2)) for _ in range(reader.number(2))]
    members = {key: is_abstract for _ in range(2) for key, is_abstract in _members(reader, text)}
    classes = {class_name(index) for index, (tag, _) in constants.items() if tag == _CLASS}
    references = {
        (class_name(_first(body)), *_name_and_type(constants[_second(body)][1], text))
        for tag, body in constants.values()
        if tag in (_FIELD, _METHOD, _INTERFACE_METHOD)
    }
    supertypes = ([class_name(parent)] if parent else []) + interfaces
    return ClassFile(
        name, bool(flags & _ABSTRACT), tuple(supertypes), members, frozenset(classes), frozenset(references)
    )


def missing_of(classes: Path, jar: Path) -> str:
    """The first thing of Aeron's that the classes below a folder need and the jar has not, for people; empty: none.

    Raises `UsageError` for a jar with a class that cannot be read.
    """
    ours = {parsed.name: parsed for parsed in map(parse_class, _class_files(classes))}
    with zipfile.ZipFile(jar) as archive:
        names = set(archive.namelist())

        @cache
        def find(name: str) -> ClassFile | None:
            if name in ours:
                return ours[name]
            file = f"{name}.class"
            if file not in names:
                return None
            try:
                return parse_class(archive.read(file))
            except (ValueError, zipfile.BadZipFile, zlib.error) as error:
                raise UsageError(f"{jar}: cannot read {file}: {error}") from error

        return next((lack for _, parsed in sorted(ours.items()) for lack in _lacks(parsed, find)), "")


_Find = Callable[[str], ClassFile | None]


def _lacks(parsed: ClassFile, find: _Find) -> Iterator[str]:
    for name in sorted(parsed.classes):
        if _is_of_aeron(name) and find(name) is None:
            yield f"class {_shown(name)}"
    for owner, name, descriptor in sorted(parsed.references):
        if _is_of_aeron(owner) and not _has(owner, (name, descriptor), find):
            yield f"{_shown(owner)}.{name}"
    if not parsed.is_abstract:
        for owner, key in _abstract_methods(parsed, find):
            if not _implements(parsed.name, key, find):
                yield f"{_shown(parsed.name)} as {_shown(owner)}, which has a new method {key[0]}"


def _has(owner: str, key: tuple[str, str], find: _Find) -> bool:
    """Whether the class or one of its supertypes declares it; of Java's own classes anything is taken for declared."""
    parsed = find(owner)
    if parsed is None:
        return owner != _OBJECT and not _is_of_aeron(owner)
    return key in parsed.members or any(_has(supertype, key, find) for supertype in parsed.supertypes)


def _implements(owner: str, key: tuple[str, str], find: _Find) -> bool:
    parsed = find(owner)
    if parsed is None:
        return False
    if parsed.members.get(key) is False:
        return True
    return any(_implements(supertype, key, find) for supertype in parsed.supertypes)


def _abstract_methods(parsed: ClassFile, find: _Find) -> Iterator[tuple[str, tuple[str, str]]]:
    """Those that its supertypes of Aeron leave to it."""
    for name in parsed.supertypes:
        above = find(name)
        if above is None:
            continue
        if _is_of_aeron(name):
            yield from ((name, key) for key, is_abstract in above.members.items() if is_abstract)
        yield from _abstract_methods(above, find)


def _is_of_aeron(name: str) -> bool:
    return name.startswith(_OF_AERON)


def _shown(name: str) -> str:
    return name.replace("/", ".").replace("$", ".")


def _class_files(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.rglob("*.class")):
        yield path.read_bytes()


def _constants(reader: _Reader) -> dict[int, tuple[int, bytes]]:
    """Tag and body of each constant, by its index."""
    constants: dict[int, tuple[int, bytes]] = {}
    count, index = reader.number(2), 1
    while index < count:
        tag = reader.number(1)
        if tag != _UTF8 and tag not in _LENGTHS:
            raise ValueError(f"unknown constant {tag} in a class file")
        constants[index] = tag, reader.take(reader.number(2) if tag == _UTF8 else _LENGTHS[tag])
        index += 2 if tag in _WIDE else 1
    return constants


def _members(reader: _Reader, text: Callable[[int], str]) -> Iterator[tuple[tuple[str, str], bool]]:
    """Fields or methods, without their attributes."""
    for _ in range(reader.number(2)):
        flags, name, descriptor = reader.number(2), reader.number(2), reader.number(2)
        for _ in range(reader.number(2)):
            reader.take(2)
            reader.take(reader.number(4))
        yield (text(name), text(descriptor)), bool(flags & _ABSTRACT)


def _name_and_type(body: bytes, text: Callable[[int], str]) -> tuple[str, str]:
    return text(_first(body)), text(_second(body))


def _first(body: bytes) -> int:
    return int(struct.unpack_from(">H", body)[0])


def _second(body: bytes) -> int:
    return int(struct.unpack_from(">H", body, 2)[0])
