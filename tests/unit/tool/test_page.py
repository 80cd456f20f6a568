"""docs/tool.md: every command is in its table, and its examples are what the tool says."""

import tool_examples
from upheaval_node.tool.commands import COMMANDS


def test_the_examples_are_what_the_tool_says() -> None:
    text = tool_examples.PAGE.read_text(encoding="utf-8")
    assert tool_examples.current(text) == text, "run python tools/tool_examples.py"


def test_every_command_has_its_row() -> None:
    text = tool_examples.PAGE.read_text(encoding="utf-8")
    table = text.partition("## Commands")[2].partition("\n## ")[0]
    rows = [line.split("|")[1].strip(" `") for line in table.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(COMMANDS)
