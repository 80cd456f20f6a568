"""Words that pages, help texts, docstrings and comments do not use: each has a plainer one."""

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Iterator
from typing import Final

import pytest

from support.pages import PAGES, ROOT
from upheaval.cli.main import make_parser

BANNED: Final = re.compile(
    r"\b(told|nobody|whoever|somebody|(?:of )?one['\u2019]s own|lies|stands|what becomes of|aside)\b", re.IGNORECASE
)
PACKAGES: Final = ("harness", "node", "chaos", "pipeline", "tools", "bench", "examples")
COMMENT: Final = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
CODE: Final = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def banned_in(text: str) -> list[str]:
    """Each banned word with what surrounds it."""
    return [text[max(0, match.start() - 40) : match.end() + 20] for match in BANNED.finditer(text)]


@pytest.mark.parametrize("page", PAGES)
def test_pages_use_the_words_of_the_field(page: str) -> None:
    assert banned_in(CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))) == []


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """It, and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from parsers(command)


@pytest.mark.parametrize("parser", list(parsers(make_parser())), ids=lambda parser: parser.prog)
def test_help_uses_the_words_of_the_field(parser: argparse.ArgumentParser) -> None:
    assert banned_in(" ".join(parser.format_help().split())) == []


def docstrings_and_comments(source: str) -> Iterator[str]:
    """Texts for readers of a module, without the code that they quote."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(ast.Constant(str(text))):
                yield CODE.sub("", " ".join(text.split()))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield CODE.sub("", token.string)


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_and_comments_use_the_words_of_the_field(package: str) -> None:
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    assert [
        (str(module.relative_to(ROOT)), text)
        for module in modules
        for text in docstrings_and_comments(module.read_text(encoding="utf-8"))
        if banned_in(text)
    ] == []


@pytest.mark.parametrize("package", ["images", "harness", "examples", "tests"])
def test_comments_of_java_and_scripts_use_the_words_of_the_field(package: str) -> None:
    sources = [path for path in sorted((ROOT / package).rglob("*")) if path.suffix in (".java", ".js")]
    assert sources
    assert [
        (str(source.relative_to(ROOT)), words)
        for source in sources
        for comment in COMMENT.findall(source.read_text(encoding="utf-8"))
        if (words := banned_in(comment))
    ] == []


def test_banned_words_are_found_in_prose_alone() -> None:
    assert len(banned_in("Nobody is told what becomes of one's own.")) == 4
    assert CODE.sub("", "a `told` b\n```sh\nlies\n```\nc") == "a  b\n\nc"
