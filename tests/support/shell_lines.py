"""Splits a block of shell commands into commands and their words, as far as pages of the documentation need it."""

import re
import shlex
from collections.abc import Iterator
from typing import Final

_OPERATORS: Final = frozenset({";", "&&", "||", "|", "&", "(", ")", "\n"})
_KEYWORDS: Final = frozenset({"do", "done", "then", "fi", "else", "if", "while", "!"})
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_REDIRECTION: Final = re.compile(r"\d?[<>]{1,2}")


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of each command, without assignments, keywords of loops, redirections and comments.

    The commands inside of `$(...)` come before the command that they are a word of. Raises `ValueError` for a
    quotation without an end.
    """
    joined = text.replace("\\\n", " ")
    for inner in re.findall(r"\$\(([^()]+)\)", joined):
        yield from commands_of(inner)
    outer = re.sub(r"\$\([^()]+\)", "VALUE", joined)
    for line in outer.splitlines():
        yield from _commands_of_line(line)


def _commands_of_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = "#"
    words: list[str] = []
    tokens = iter(lexer)
    for token in tokens:
        if token in _OPERATORS:
            yield from _command(words)
            words = []
        elif _REDIRECTION.fullmatch(token):
            next(tokens, None)
        else:
            words.append(token)
    yield from _command(words)


def _command(words: list[str]) -> Iterator[list[str]]:
    while words and (words[0] in _KEYWORDS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if words and words[0] != "for":
        yield words
