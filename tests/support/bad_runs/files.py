"""What edits of a run folder share: lines of JSON, fields of small files, records of a recording log."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

_RECORD = 64
TERM, SNAPSHOT, STANDBY_SNAPSHOT = 0, 1, 2


def edit_lines(path: Path, change: Callable[[dict[str, object]], bool]) -> None:
    """`change` may change the object of a line, and says whether it stays; it must do something."""
    before = path.read_text(encoding="utf-8")
    lines = []
    for line in before.splitlines():
        fields = json.loads(line)
        if change(fields):
            lines.append(json.dumps(fields, separators=(",", ":")) + "\n")
    assert "".join(lines) != before, path
    path.write_text("".join(lines), encoding="utf-8")


def edit_object(path: Path, change: Callable[[dict[str, object]], object]) -> None:
    """The same of a file with one object."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    change(fields)
    path.write_text(json.dumps(fields, indent=2) + "\n", encoding="utf-8")


def records(path: Path) -> list[bytes]:
    """The records of a recording log; those of standbys may be longer than others."""
    content, found, at = path.read_bytes(), [], 0
    while at < len(content):
        length = _RECORD
        if kind_of(content[at:]) == STANDBY_SNAPSHOT:
            text = int.from_bytes(content[at + 48 : at + 52], "little")
            length = -(-(52 + text) // _RECORD) * _RECORD
        found.append(content[at : at + length])
        at += length
    return found


def kind_of(record: bytes) -> int:
    """Term or snapshot, of the member or of a standby."""
    return int(struct.unpack_from("<i", record, 44)[0]) & 0x7FFFFFFF


def position_of(record: bytes) -> int:
    """Of the log."""
    return int(struct.unpack_from("<q", record, 24)[0])


def service_of(record: bytes) -> int:
    """-1 for the module."""
    return int(struct.unpack_from("<i", record, 40)[0])


def keep_records(path: Path, is_kept: Callable[[bytes], bool]) -> None:
    """It must lose some."""
    before = records(path)
    kept = [record for record in before if is_kept(record)]
    assert len(kept) < len(before), path
    path.write_bytes(b"".join(kept))


def put_in_records(path: Path, kind: int, offset: int, form: str, value: int) -> None:
    """Into every record of that kind."""
    found = [bytearray(record) for record in records(path)]
    for record in found:
        if kind_of(record) == kind:
            struct.pack_into(f"<{form}", record, offset, value)
    path.write_bytes(b"".join(found))
