"""Shows payloads to people: by message and field if the run has a schema of its service's messages, otherwise as text.

Whatever shows a request or an answer to people uses `Payloads`. The schema is a file of the run folder, so that the run
can be read anywhere.
"""

from dataclasses import dataclass
from typing import Final, Self

from upheaval.errors import UsageError
from upheaval.records.run_folder import RunFolder, write_atomically
from upheaval_node.errors import UsageError as NodeUsageError
from upheaval_node.ports import Buffer
from upheaval_node.sbe import SbeError, SbeSchema, load_schema

SCHEMA_FILE: Final = "schema.xml"
BYTES_MAX: Final = 32
"""How many bytes are shown of a payload that is not a message of the schema."""


@dataclass(frozen=True, slots=True)
class Payloads:
    """Turns payloads into lines of text. Without a schema they are UTF-8, with unprintable characters escaped."""

    schema: SbeSchema | None = None

    @classmethod
    def of(cls, run: RunFolder) -> Self:
        """The payloads of a run. Raises `UsageError` for a damaged schema."""
        path = run.path / SCHEMA_FILE
        return cls(read_schema(str(path)) if path.is_file() else None)

    def text(self, payload: Buffer) -> str:
        """One line: `NewOrder(price=5)`, or the bytes and why they are not a message of the schema."""
        if self.schema is None:
            return printable(bytes(payload).decode("utf-8", "backslashreplace"))
        try:
            return printable(str(self.schema.decode(payload)))
        except SbeError as error:
            more = f".. ({len(payload)} bytes)" if len(payload) > BYTES_MAX else ""
            return f"0x{bytes(payload[:BYTES_MAX]).hex()}{more}, no message of the schema: {error}"


AS_TEXT: Final = Payloads()
"""For runs without a schema."""


def printable(text: str) -> str:
    """The text with escapes for characters that cannot be printed in one line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def read_schema(path: str) -> SbeSchema:
    """The schema in a file. Raises `UsageError` with file and line."""
    try:
        return load_schema(path)
    except NodeUsageError as error:
        raise UsageError(f"schema {error}") from error


def write_schema(run: RunFolder, path: str) -> None:
    """Copy the schema at `path`, with all its includes, into the run folder; do nothing for an empty path."""
    if path:
        write_atomically(run.path / SCHEMA_FILE, read_schema(path).source + "\n")
