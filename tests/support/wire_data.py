"""The recorded bytes under tests/data, and the schemas they belong to."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from upheaval_node.protocol import (
    archive_mark_messages,
    archive_messages,
    cluster_mark_messages,
    cluster_messages,
    node_state_messages,
)
from upheaval_node.protocol.codec import MessageSchema, RawBlock

DATA = Path(__file__).resolve().parent.parent / "data"

SCHEMAS: dict[str, MessageSchema] = {
    module.SCHEMA.table.name: module.SCHEMA
    for module in (
        archive_mark_messages,
        archive_messages,
        cluster_mark_messages,
        cluster_messages,
        node_state_messages,
    )
}


@dataclass(frozen=True)
class Vector:
    """An encoded message and the values that Aeron's decoder reads from it."""

    id: str
    schema: MessageSchema
    kind: str
    version: int
    block_length: int
    encoded: bytes
    block: RawBlock


@cache
def vectors() -> tuple[Vector, ...]:
    entries = json.loads((DATA / "vectors.json").read_text(encoding="utf-8"))["vectors"]
    return tuple(
        Vector(
            entry["id"],
            SCHEMAS[entry["schema"]],
            entry["kind"],
            entry["version"],
            entry["block_length"],
            bytes.fromhex(entry["hex"]),
            _block(SCHEMAS[entry["schema"]], entry, _text_names(entry)),
        )
        for entry in entries
    )


@cache
def golden() -> dict:  # type: ignore[type-arg]
    return json.loads((DATA / "golden.json").read_text(encoding="utf-8"))  # type: ignore[no-any-return]


def _text_names(entry: dict) -> frozenset[str]:  # type: ignore[type-arg]
    """Names of the var data that is text, at any depth: the others are given as hex."""
    table = SCHEMAS[entry["schema"]].table.messages[entry["template_id"]].block
    blocks = [table, *table.groups]
    return frozenset(item.name for block in blocks for item in block.var_data if item.is_text)


def _block(schema: MessageSchema, entry: dict, text_names: frozenset[str]) -> RawBlock:  # type: ignore[type-arg]
    return RawBlock(
        fields={k: v["value"] if isinstance(v, dict) else v for k, v in entry["fields"].items()},
        groups={k: [_block(schema, item, text_names) for item in v] for k, v in entry["groups"].items()},
        var_data={k: v.encode("ascii") if k in text_names else bytes.fromhex(v) for k, v in entry["var_data"].items()},
    )
