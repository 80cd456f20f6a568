"""Write the generated message modules of `upheaval_node.protocol` from the JSON tables.

python tools/generate_messages.py            writes the modules
python tools/generate_messages.py --check    exit status 1 when a committed module differs
"""

import sys
from pathlib import Path
from typing import NamedTuple

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

ROW_MAX = 108
"""Characters of a line of items, without its indentation."""

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


class Parameter(NamedTuple):
    """A parameter of the constructor of a class, and the field that it fills."""

    name: str
    kind: str
    default: str

    def __str__(self) -> str:
        return f"{self.name}: {self.kind} = {self.default}"


def parameter(field: FieldTable) -> Parameter:
    """A fixed field, by the value of its type that it holds when it is left out."""
    name = snake_case(field.name)
    if field.enum == BOOLEAN_ENUM:
        return Parameter(name, "bool", "False")
    null = NULL_NAMES.get(field.null_value, str(field.null_value))
    named = named_type(name)
    if named:
        return Parameter(name, named, f"{named}({null})")
    return Parameter(name, "int" if field.enum is None else f"{field.enum} | int", null)


def parameters(block: BlockTable, path: str) -> list[Parameter]:
    """Those of a class, in the order of its block."""
    fixed = [parameter(field) for field in block.fields]
    groups = [
        Parameter(snake_case(group.name), f"tuple[{entry_class_name(f'{path}.{group.name}')}, ...]", "()")
        for group in block.groups
    ]
    var_data = [
        Parameter(snake_case(item.name), *(("str", '""') if item.is_text else ("bytes", 'b""')))
        for item in block.var_data
    ]
    return fixed + groups + var_data


def class_lines(name: str, base: str, doc: str, block: BlockTable, path: str) -> list[str]:
    """A class with its constructor written out: dataclasses would compile a hundred of them at every start."""
    fields = parameters(block, path)
    lines = ["", "", f"class {name}({base}):", f'    """{doc}"""', ""]
    lines += [f"    {each.name}: Final[{each.kind}]" for each in fields]
    lines += wrapped("__match_args__ = (", [f'"{each.name}"' for each in fields], ")")
    lines += ["    __slots__ = __match_args__"]
    if fields:
        lines += ["", *wrapped("def __init__(", ["self", *map(str, fields)], ") -> None:")]
        lines += [f'        set_field(self, "{each.name}", {each.name})' for each in fields]
    return lines


def wrapped(begin: str, items: list[str], end: str) -> list[str]:
    """A statement of a class, with its items between brackets on as few lines as there is room for."""
    lines = [f"    {begin}"]
    row = ""
    for item in items:
        if len(row) + len(item) > ROW_MAX:
            lines.append(f"        {row.rstrip()}")
            row = ""
        row += f"{item}, "
    return [*lines, *([f"        {row.rstrip()}"] if row else []), f"    {end}"] if items else [f"    {begin}{end}"]


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
        lines += class_lines(entry_class_name(path), "GroupEntry", f"Entry of the group `{path}`.", group, path)
    facts = [f"Template {message.template_id} of schema {schema.schema_id}"]
    if message.block.since_version > 0:
        facts.append(f"since version {message.block.since_version}")
    if message.deprecated_since_version is not None:
        facts.append(f"deprecated since version {message.deprecated_since_version}")
    doc = f"{', '.join(facts)}."
    return lines + class_lines(class_name(message.name), "Message", doc, message.block, message.name)


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
    bases = [*(["GroupEntry"] if groups else []), "Message", "set_field"]
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
        "# A constructor fills them by `set_field`, which mypy does not take for the value of a final field.",
        '# mypy: disable-error-code="misc"',
        "",
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
