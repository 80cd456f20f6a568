"""Runs whose logs and snapshots were written by another version of the schema."""

from pathlib import Path

from upheaval_node.protocol.cluster_messages import SCHEMA

_FRAME_HEADER = 32
_BEGINS = 0x80


def in_version(message: bytes, version: int, schema_id: int = SCHEMA.table.schema_id) -> bytes:
    """The message with another version, and maybe schema, in its header."""
    return message[:4] + schema_id.to_bytes(2, "little") + version.to_bytes(2, "little") + message[8:]


def rewrite(run: Path, version: int) -> int:
    """Put the version into every message of the cluster in the recordings of all members; how many there were."""
    count = 0
    for path in run.glob("member-*/archive/*.rec"):
        content = bytearray(path.read_bytes())
        offset = 0
        while offset < len(content) and (length := int.from_bytes(content[offset : offset + 4], "little")):
            begin, end = offset + _FRAME_HEADER, offset + length
            kind = int.from_bytes(content[offset + 6 : offset + 8], "little")
            is_first = kind == 1 and content[offset + 5] & _BEGINS
            if is_first and int.from_bytes(content[begin + 4 : begin + 6], "little") == SCHEMA.table.schema_id:
                content[begin:end] = in_version(bytes(content[begin:end]), version)
                count += 1
            offset += length + 31 & -32
        path.write_bytes(content)
    return count
