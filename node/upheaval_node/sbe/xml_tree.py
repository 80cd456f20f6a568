"""The elements of an XML file with the lines that they begin in, included files in their places.

No file but the schema and what it includes is read: a document type, which could name others, is refused.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.parsers import expat

from upheaval_node.sbe.errors import SchemaError

_DEPTH_MAX: Final = 40
_INCLUDES_MAX: Final = 50


@dataclass(slots=True)
class Element:
    """An element; names are without the prefix of a namespace. `place` is `FILE:LINE`."""

    tag: str
    attributes: dict[str, str]
    place: str
    children: list["Element"] = field(default_factory=list)
    text: str = ""

    def named(self, *tags: str) -> Iterator["Element"]:
        """The children of these tags."""
        return (child for child in self.children if child.tag in tags)

    def get(self, name: str, default: str = "") -> str:
        """An attribute's value."""
        return self.attributes.get(name, default)

    def to_xml(self) -> str:
        """The element as XML, without the prefixes of namespaces."""
        # Imported here: it brings an HTTP client along, a fifth of the start of whatever reads a run folder.
        from xml.sax.saxutils import escape, quoteattr

        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in self.attributes.items())
        content = escape(self.text.strip()) + "".join(f"\n{child.to_xml()}" for child in self.children)
        return f"<{self.tag}{attributes}>{content}</{self.tag}>"


def read_tree(path: Path) -> Element:
    """The root of the file. Raises `SchemaError`."""
    return _Files().read(path, str(path))


def parse_tree(content: bytes, name: str) -> Element:
    """The root of the text of a file of that name. Raises `SchemaError`."""
    return _Files().parse(content, name, Path(name).parent)


class _Files:
    """A file and those that it includes."""

    def __init__(self) -> None:
        self._count = 0

    def read(self, path: Path, place: str) -> Element:
        self._count += 1
        if self._count > _INCLUDES_MAX:
            raise SchemaError(f"{place}: more than {_INCLUDES_MAX} files are included")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise SchemaError(f"{place}: cannot read {path}: {error.strerror}") from error
        return self.parse(content, str(path), path.parent)

    def parse(self, content: bytes, name: str, folder: Path) -> Element:
        parser = expat.ParserCreate(namespace_separator=" ")
        top = Element("", {}, name)
        stack = [top]

        def place() -> str:
            return f"{name}:{parser.CurrentLineNumber}"

        def start(tag: str, attributes: dict[str, str]) -> None:
            if len(stack) > _DEPTH_MAX:
                raise SchemaError(f"{place()}: more than {_DEPTH_MAX} elements in one another")
            local = {key.rpartition(" ")[2]: value for key, value in attributes.items()}
            element = Element(tag.rpartition(" ")[2], local, place())
            if element.tag == "include" and "XInclude" in tag:
                element = self.read(folder / element.get("href"), place())
            stack[-1].children.append(element)
            stack.append(element)

        def refuse(*_: object) -> None:
            raise SchemaError(f"{place()}: a document type: remove it")

        def text(characters: str) -> None:
            stack[-1].text += characters

        parser.StartElementHandler = start
        parser.EndElementHandler = lambda _: stack.pop()
        parser.CharacterDataHandler = text
        parser.StartDoctypeDeclHandler = refuse
        try:
            parser.Parse(content, True)
        except expat.ExpatError as error:
            raise SchemaError(f"{name}:{error.lineno}: {expat.ErrorString(error.code)}") from error
        return top.children[0]
