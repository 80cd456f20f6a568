"""Blocks of code on all pages: each has a language, parses as what it says that it is, and names what exists."""

import ast
import configparser
import importlib
import importlib.util
import json
import re
import tomllib
from collections.abc import Callable
from itertools import pairwise
from typing import Final

import pytest
import yaml

from support.pages import PAGES, ROOT, PageBlock, page_blocks
from support.shell_lines import commands_of
from upheaval.cli.main import make_parser
from upheaval.scenario.text import parse_scenario

OTHER_PROGRAMS: Final = """
. break cat cd chmod cp curl docker echo export git grep head iptables java javac jq jupyter kill ls mkdir mv mvn
openssl pip rm sed sleep sort sudo tail tar test touch true uniq
"""
"""What pages run besides our own commands. A new name needs an entry, so that a typing error is noticed."""


def check_java(block: PageBlock) -> None:
    """A whole class; `tests/aeron` compiles and runs it."""
    assert re.search(r"^public final class \w+ ", block.block.text, re.MULTILINE)
    assert "file" in block.marks


def check_json(block: PageBlock) -> None:
    json.loads(block.block.text)


def check_toml(block: PageBlock) -> None:
    assert tomllib.loads(block.block.text)


def check_ini(block: PageBlock) -> None:
    text = block.block.text
    configparser.ConfigParser().read_string(text if text.startswith("[") else f"[pytest]\n{text}")


def check_dockerfile(block: PageBlock) -> None:
    assert block.block.text.startswith("FROM ")


def check_mermaid(block: PageBlock) -> None:
    assert block.block.text.split()[0] in ("stateDiagram-v2", "sequenceDiagram", "flowchart")


def check_text(block: PageBlock) -> None:
    """Output, or a scenario."""
    if "scenario" in block.marks:
        parse_scenario(block.block.text, name="block", where=block.place)


def check_console(block: PageBlock) -> None:
    assert re.search(r"^\$ ", block.block.text, re.MULTILINE)


def check_yaml(block: PageBlock) -> None:
    assert yaml.safe_load(block.block.text)


def check_python(block: PageBlock) -> None:
    """It parses, and what it imports of ours is there; `test_python` runs it."""
    tree = ast.parse(block.block.text)
    if "locust" in block.marks:
        return  # `tests/load` runs it, where locust is
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("upheaval"):
            module = importlib.import_module(node.module or "")
            for name in node.names:
                assert hasattr(module, name.name) or importlib.util.find_spec(f"{node.module}.{name.name}"), name.name


def check_toctree(block: PageBlock) -> None:
    names = [line for line in block.block.text.splitlines() if line and not line.startswith(":")]
    assert [name for name in names if not (ROOT / "docs" / f"{name}.md").is_file()] == []


def check_include(block: PageBlock) -> None:
    assert ((ROOT / block.page).parent / block.block.info.split()[1]).is_file()


LANGUAGES: Final[dict[str, Callable[[PageBlock], None]]] = {
    "{include}": check_include,
    "{toctree}": check_toctree,
    "console": check_console,
    "dockerfile": check_dockerfile,
    "ini": check_ini,
    "java": check_java,
    "json": check_json,
    "mermaid": check_mermaid,
    "python": check_python,
    "text": check_text,
    "toml": check_toml,
    "yaml": check_yaml,
}


@pytest.mark.parametrize("block", [b for b in page_blocks() if b.language != "sh"], ids=lambda block: block.place)
def test_a_block_parses_as_its_language(block: PageBlock) -> None:
    assert block.language in LANGUAGES, f"{block.place}: the fence has no known language"
    LANGUAGES[block.language](block)


def check_upheaval(words: list[str], place: str) -> None:
    try:
        make_parser().parse_args(words[1:])
    except SystemExit as end:
        if end.code:
            pytest.fail(f"{place}: {' '.join(words)}")


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def check_make(words: list[str], place: str) -> None:
    targets = {word for word in words[1:] if "=" not in word}
    assert targets <= make_targets(), f"{place}: {targets}"


def check_python_program(words: list[str], place: str) -> None:
    if words[1] == "-m":
        assert importlib.util.find_spec(words[2]), f"{place}: {words[2]}"
    elif not words[1].startswith("-"):
        assert (ROOT / words[1]).is_file(), f"{place}: {words[1]}"


def check_compose(words: list[str], place: str) -> None:
    files = [word for name, word in pairwise(words) if name == "-f"]
    assert all((ROOT / file).exists() for file in files if file.startswith("compose/")), f"{place}: {files}"


@pytest.fixture(scope="module")
def pytest_options(pytestconfig: pytest.Config) -> frozenset[str]:
    groups = [pytestconfig._parser._anonymous, *pytestconfig._parser._groups]
    return frozenset(name for group in groups for option in group.options for name in option.names())


def check_pytest(words: list[str], place: str, known: frozenset[str]) -> None:
    options = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
    assert options <= known, f"{place}: {options - known}"


@pytest.mark.parametrize("block", page_blocks("sh"), ids=lambda block: block.place)
def test_the_commands_of_a_block_exist_with_their_options(block: PageBlock, pytest_options: frozenset[str]) -> None:
    for words in commands_of(block.block.text):
        match words[0].rpartition("/")[2]:
            case "upheaval":
                check_upheaval(words, block.place)
            case "make":
                check_make(words, block.place)
            case "python" | "python3" | "python3.11":
                check_python_program(words, block.place)
            case "pytest":
                check_pytest(words, block.place, pytest_options)
            case "docker":
                check_compose(words, block.place)
            case name:
                assert name in OTHER_PROGRAMS.split(), f"{block.place}: {' '.join(words)}"


def test_commands_are_split_as_a_shell_does() -> None:
    text = "A=1 b 'c d' && e > f | g; for x in $(h i); do\n  j $x || break  # k\ndone"
    assert list(commands_of(text)) == [["h", "i"], ["b", "c d"], ["e"], ["g"], ["j", "$x"], ["break"]]


def test_the_site_has_every_page() -> None:
    listed = {line for block in page_blocks("{toctree}") for line in block.block.text.splitlines()}
    pages = {page.removeprefix("docs/").removesuffix(".md") for page in PAGES if page.startswith("docs/")}
    assert pages - listed == {"index"}
