"""Write the generated message modules of `upheaval_node.protocol` from the JSON tables.

python tools/generate_messages.py            writes the modules
python tools/generate_messages.py --check    exit status 1 when a committed module differs
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "node"))

from upheaval_node.protocol.codec import BOOLEAN_ENUM, NULL_INT8, NULL_INT32, NULL_INT64, NULL_UINT8
from upheaval_node.protocol.schema import (
    BlockTable,
    EnumTable,
    FieldTable,
    MessageTable,
    SchemaTable,
    class_name,
    entry_class_name,
    load_schema,
    snake_case,
)

ROOT = Path(__file__).resolve().parent.parent

MODULES = {
    "cluster_messages": "cluster-codecs",
    "archive_messages": "archive-codecs",
    "cluster_mark_messages": "cluster-mark-codecs",
    "archive_mark_messages": "archive-mark-codecs",
    "node_state_messages": "cluster-node-state-codecs",
}

DECORATOR = "@dataclass(frozen=True, slots=True, eq=False, repr=False)"
"""Comparison and text are those of the base: a hundred classes that each compile their own delay every start."""

NULL_NAMES = {
    NULL_INT64: "NULL_INT64",
    NULL_INT32: "NULL_INT32",
    NULL_UINT8: "NULL_UINT8",
    NULL_INT8: "NULL_INT8",
}


def named_type(name: str) -> str:
    """The type of `upheaval_node.types` that values of such a field have; empty for plain numbers."""
    if name.endswith("member_id"):
        return "MemberId"
    if name.endswith("cluster_session_id"):
        return "SessionId"
    if name.endswith(("log_position", "commit_position")):
        return "Position"
    return "TermId" if name.endswith(("leadership_term_id", "candidate_term_id")) else ""


def field_line(field: FieldTable) -> str:
    name = snake_case(field.name)
    if field.enum == BOOLEAN_ENUM:
        return f"    {name}: bool = False"
    null = NULL_NAMES.get(field.null_value, str(field.null_value))
    named = named_type(name)
    if named:
        return f"    {name}: {named} = {named}({null})"
    kind = "int" if field.enum is None else f"{field.enum} | int"
    return f"    {name}: {kind} = {null}"


def body_lines(block: BlockTable, path: str) -> list[str]:
    lines = [field_line(field) for field in block.fields]
    for group in block.groups:
        entry = entry_class_name(f"{path}.{group.name}")
        lines.append(f"    {snake_case(group.name)}: tuple[{entry}, ...] = ()")
    var_data = [(snake_case(item.name), 'str = ""' if item.is_text else 'bytes = b""') for item in block.var_data]
    return lines + [f"    {name}: {kind}" for name, kind in var_data]


def enum_lines(enum: EnumTable) -> list[str]:
    return ["", "", f"class {enum.name}(IntEnum):", *(f"    {name} = {value}" for name, value in enum.values)]


def group_paths(block: BlockTable, path: str) -> list[tuple[str, BlockTable]]:
    """Groups of a block with their paths, inner ones first."""
    found: list[tuple[str, BlockTable]] = []
    for group in block.groups:
        inner = f"{path}.{group.name}"
        found += group_paths(group, inner)
        found.append((inner, group))
    return found


def message_lines(message: MessageTable, schema: SchemaTable) -> list[str]:
    lines: list[str] = []
    for path, group in group_paths(message.block, message.name):
        lines += ["", "", DECORATOR, f"class {entry_class_name(path)}(GroupEntry):"]
        lines += [f'    """Entry of the group `{path}`."""', "", *body_lines(group, path)]
    facts = [f"Template {message.template_id} of schema {schema.schema_id}"]
    if message.block.since_version > 0:
        facts.append(f"since version {message.block.since_version}")
    if message.deprecated_since_version is not None:
        facts.append(f"deprecated since version {message.deprecated_since_version}")
    lines += ["", "", DECORATOR, f"class {class_name(message.name)}(Message):"]
    lines += [f'    """{", ".join(facts)}."""']
    body = body_lines(message.block, message.name)
    return lines + (["", *body] if body else [])


def used_nulls(schema: SchemaTable) -> list[str]:
    blocks = [message.block for message in schema.messages.values()]
    blocks += [group for message in schema.messages.values() for _, group in group_paths(message.block, message.name)]
    fields = [field for block in blocks for field in block.fields if field.enum != BOOLEAN_ENUM]
    used = {NULL_NAMES[field.null_value] for field in fields if field.null_value in NULL_NAMES}
    by_width = sorted(NULL_NAMES.values(), key=lambda name: int(name.partition("INT")[2]))
    return [name for name in by_width if name in used]


def module_text(schema: SchemaTable) -> str:
    enums = [enum for enum in schema.enums.values() if enum.name != BOOLEAN_ENUM]
    messages = sorted(schema.messages.values(), key=lambda message: message.template_id)
    groups = [path for message in messages for path, _ in group_paths(message.block, message.name)]
    imports = [*used_nulls(schema), "MessageSchema"]
    bases = [*(["GroupEntry"] if groups else []), "Message"]
    lines = [
        f'"""Messages of schema {schema.schema_id}, version {schema.version}. Generated: do not edit.',
        "",
        f"Made from {schema.name}.json by tools/generate_messages.py.",
        "",
        "A fixed field that the writer's version lacks, or that was left out, holds the SBE",
        "null of its type (a NULL_ constant, or the number given); a null boolean reads as False. Enum fields hold the",
        "member, or the plain number of a value that is unknown or null.",
        '"""',
        "",
        "from dataclasses import dataclass",
        *(["from enum import IntEnum"] if enums else []),
        "from typing import Final",
        "",
        f"from upheaval_node.protocol.codec import {', '.join(imports)}",
        f"from upheaval_node.protocol.message import {', '.join(bases)}",
        "from upheaval_node.protocol.schema import load_schema",
    ]
    classes = [line for message in messages for line in message_lines(message, schema)]
    types = [
        name
        for name in ("MemberId", "Position", "SessionId", "TermId")
        if any(f": {name} = " in line for line in classes)
    ]
    lines += [f"from upheaval_node.types import {', '.join(types)}"] if types else []
    for enum in enums:
        lines += enum_lines(enum)
    lines += classes
    lines += ["", "", f'SCHEMA: Final[MessageSchema] = MessageSchema(load_schema("{schema.name}"), globals())']
    return "\n".join(lines) + "\n"


def generated_modules() -> dict[Path, str]:
    """The text of every generated module by its path."""
    folder = ROOT / "node" / "upheaval_node" / "protocol"
    return {folder / f"{module}.py": module_text(load_schema(name)) for module, name in MODULES.items()}


def main(arguments: list[str]) -> int:
    status = 0
    for path, text in generated_modules().items():
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            print(f"{path} differs from its table: run tools/generate_messages.py", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
