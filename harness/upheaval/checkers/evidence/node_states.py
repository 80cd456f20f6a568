"""Reads `node-state.dat`. The judge shares no code with the node, so it has its own reader."""

import struct
from pathlib import Path
from typing import Final

_RECORD_HEADER: Final = struct.Struct("<HHHHi4x")
_FIRST_RECORD: Final = 8
_CANDIDATE_TERM: Final = 301
_FOOTER: Final = 304


def candidate_term(path: Path) -> int | None:
    """The last term in which the member was a candidate or voted; None if it is missing. Raises `OSError`."""
    content = path.read_bytes()
    offset = _FIRST_RECORD
    while offset + _RECORD_HEADER.size <= len(content):
        _, template, _, _, length = _RECORD_HEADER.unpack_from(content, offset)
        if template == _CANDIDATE_TERM and offset + _RECORD_HEADER.size + 8 <= len(content):
            return int.from_bytes(content[offset + 16 : offset + 24], "little", signed=True)
        if template == _FOOTER or length < _RECORD_HEADER.size:
            break
        offset += (length + 7) & -8
    return None
