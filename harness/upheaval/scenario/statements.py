"""Splits a text into statements, for both languages: one per line, words between spaces, `#` begins a comment.

A language is a table from the first word of a statement to the function that reads the rest. Every error is a
`UsageError` that begins with `FILE:LINE:COLUMN`. This module knows only the statements that both languages have.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from upheaval.checkers.promises import Promise, promise_named
from upheaval.errors import UsageError
from upheaval_node.protocol.describe import fields_of
from upheaval_node.protocol.message import Message
from upheaval_node.suggestions import did_you_mean

SUFFIX: Final = ".scenario"
DIGITS_MAX: Final = 10
NUMBER_MAX: Final = 1_000_000_000
_WORD: Final = re.compile(r"\S+")
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")

T = TypeVar("T")


class ScenarioError(UsageError):
    """An error in the text; `message` is its reason without the place."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.message = message


@dataclass(frozen=True, slots=True)
class Word:
    """A word, or a part of one, and the column where it begins."""

    text: str
    column: int

    def split(self, separator: str) -> "list[Word]":
        """The parts between separators."""
        words, column = [], self.column
        for part in self.text.split(separator):
            words.append(Word(part, column))
            column += len(part) + len(separator)
        return words


class Statement:
    """The words of one line, consumed in order."""

    def __init__(self, where: str, number: int, content: str) -> None:
        self._place = f"{where}:{number}"
        self.code = content.partition("#")[0].rstrip()
        self._words = [Word(match.group(), match.start() + 1) for match in _WORD.finditer(self.code)]
        self._next = 0

    def __bool__(self) -> bool:
        return bool(self._words)

    def __str__(self) -> str:
        return " ".join(word.text for word in self._words)

    @property
    def first(self) -> str:
        """The first word, which names the kind of statement."""
        return self._words[0].text

    @property
    def has_more(self) -> bool:
        """Whether there are words left."""
        return self._next < len(self._words)

    def fail(self, message: str, at: Word | None = None) -> NoReturn:
        """Raise `ScenarioError` at a word, by default the last one taken."""
        word = at or self._words[max(self._next - 1, 0)]
        raise ScenarioError(f"{self._place}:{word.column}", message)

    def take_word(self, what: str) -> Word:
        """The next word."""
        if not self.has_more:
            self.fail(f"{what} is missing", Word("", len(self.code) + 1))
        self._next += 1
        return self._words[self._next - 1]

    def take(self, what: str) -> str:
        """The text of the next word."""
        return self.take_word(what).text

    def take_one_of(self, what: str, choices: Collection[str]) -> str:
        """The next word, which must be one of `choices`."""
        return self.one_of(self.take_word(what), what, choices)

    def take_from(self, what: str, table: Mapping[str, T]) -> T:
        """The value that the table has for the next word."""
        return table[self.take_one_of(what, table)]

    def take_number(self, what: str) -> int:
        """The next word as a number."""
        return self.number(self.take_word(what), what)

    def take_name(self, what: str) -> str:
        """The next word, which must be a valid name."""
        return self.checked_name(what, self.take_word(what))

    def checked_name(self, what: str, word: Word) -> str:
        """The text of a word, which must be a valid name."""
        if not _NAME.fullmatch(word.text):
            self.fail(f"{what} {word.text!r}: use small letters, digits and hyphens", word)
        return word.text

    def take_rest(self, what: str) -> str:
        """Everything up to the end of the line or to the comment, unchanged."""
        first = self.take_word(what)
        self._next = len(self._words)
        return self.code[first.column - 1 :]

    def take_promise(self) -> Promise:
        """The rest of the line, as the id or the sentence of a promise."""
        first = self._words[self._next] if self.has_more else None
        text = self.take_rest("promise")
        promise = promise_named(text)
        if promise is None:
            self.fail(f"unknown promise {text!r}: use one of {', '.join(Promise)}{did_you_mean(text, Promise)}", first)
        return promise

    def take_options(self, allowed: Collection[str]) -> "Options":
        """The rest of the line, as options `name=value`."""
        values: dict[str, Word] = {}
        while self.has_more:
            word = self.take_word("option")
            name, separator, value = word.text.partition("=")
            if name not in allowed:
                known = f"use one of {', '.join(allowed)}" if allowed else "there are none here"
                self.fail(f"unknown option {name!r}: {known}{did_you_mean(name, allowed)}")
            if not separator or not value:
                self.fail(f"option {name} needs a value: {name}=VALUE")
            if name in values:
                self.fail(f"duplicate option {name}")
            values[name] = Word(value, word.column)
        return Options(self, values)

    def one_of(self, word: Word, what: str, choices: Collection[str]) -> str:
        """The text of a word, which must be one of `choices`."""
        if word.text not in choices:
            hint = did_you_mean(word.text, choices)
            self.fail(f"unknown {what} {word.text!r}: use one of {', '.join(choices)}{hint}", word)
        return word.text

    def number(self, word: Word, what: str, least: int = 1) -> int:
        """A word as a number."""
        is_number = word.text.isascii() and word.text.isdigit() and len(word.text) <= DIGITS_MAX
        if not is_number or not least <= int(word.text) <= NUMBER_MAX:
            self.fail(f"{what} must be a number from {least} to {NUMBER_MAX}, not {word.text!r}", word)
        return int(word.text)

    def member(self, word: Word, members: int, others: Collection[str] = ()) -> int:
        """A word as a member id below `members`; `others` are the other words allowed here, for the error."""
        prefix, _, digits = word.text.rpartition("-")
        if prefix != "member" or not digits.isascii() or not digits.isdigit() or len(digits) > DIGITS_MAX:
            hint = did_you_mean(word.text, (*others, *(f"member-{member_id}" for member_id in range(members))))
            known = f"one of {', '.join(others)}, member-N" if others else "member-N"
            self.fail(f"unknown target {word.text!r}: use {known}{hint}", word)
        if int(digits) >= members:
            self.fail(f"unknown {word.text}: this cluster has {members} members", word)
        return int(digits)

    def finish(self) -> None:
        """Raises `ScenarioError` if words are left."""
        if self.has_more:
            self.fail(f"unexpected {self.take('word')!r}")

    def checked(self, make: Callable[[], T]) -> T:
        """The result of `make`. If it raises `UsageError`, that becomes an error of this line."""
        try:
            return make()
        except UsageError as error:
            self.fail(str(error), self._words[0])


class Options:
    """The options of a statement. An error in a value points at its option."""

    def __init__(self, statement: Statement, values: Mapping[str, Word]) -> None:
        self._statement = statement
        self.values = values

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def text(self, name: str, otherwise: str = "") -> str:
        """The value as written."""
        return self.values[name].text if name in self.values else otherwise

    def number(self, name: str, otherwise: int = 0, *, least: int = 1) -> int:
        """The value as a number."""
        return self._statement.number(self.values[name], name, least) if name in self.values else otherwise

    def one_of(self, name: str, choices: Collection[str], otherwise: str = "") -> str:
        """The value, which must be one of `choices`."""
        return self._statement.one_of(self.values[name], name, choices) if name in self.values else otherwise

    def of_message(self, message: Message, taken: Collection[str], members: int) -> tuple[tuple[str, str], ...]:
        """The other options, numbers without leading zeros: values that these fields of a message can have in a cluster
        of so many members.
        """
        for name, value in fields_of(message).items():
            word = self.values.get(name)
            if word is None:
                continue
            if isinstance(value, bool):
                self.one_of(name, ("true", "false"))
            elif isinstance(value, int) and not _WHOLE.fullmatch(word.text):
                self._statement.fail(f"{name} must be a number, not {word.text!r}", word)
            elif name.lower().endswith("memberid") and not 0 <= int(word.text) < members:
                self._statement.fail(f"{name}: unknown member {word.text}: this cluster has {members} members", word)
        return tuple((name, _canonical(word.text)) for name, word in self.values.items() if name not in taken)


def _canonical(value: str) -> str:
    """A number as messages are shown with it; other words as they are."""
    return str(int(value)) if _WHOLE.fullmatch(value) else value


class Text:
    """A text whose statements are read in order."""

    def __init__(self, text: str, where: str) -> None:
        self._lines = text.split("\n")
        self._where = where
        self._next = 0

    def statements(self) -> Iterator[Statement]:
        """The remaining statements, without empty lines."""
        while self._next < len(self._lines):
            self._next += 1
            statement = Statement(self._where, self._next, self._lines[self._next - 1])
            if statement:
                yield statement

    def read_by(self, language: Mapping[str, Callable[[Statement], None]], once: Collection[str]) -> None:
        """Read each statement with the function that the table has for its first word. Those of `once` are about the
        whole text, which has at most one of each.
        """
        there: set[str] = set()
        for statement in self.statements():
            read = statement.take_from("statement", language)
            if statement.first in once and statement.first in there:
                statement.fail(f"duplicate {statement.first}: the text has one already")
            there.add(statement.first)
            read(statement)
            statement.finish()

    def take_block(self, end: str) -> tuple[str, ...] | None:
        """The lines up to one that equals `end`, without empty ones; None if there is no such line."""
        lines = [line.strip() for line in self._lines[self._next :]]
        if end not in lines:
            return None
        block = lines[: lines.index(end)]
        self._next += len(block) + 1
        return tuple(filter(None, block))

    def fail(self, message: str) -> NoReturn:
        """Raise `ScenarioError` at the last line, for what is missing in the whole text."""
        raise ScenarioError(f"{self._where}:{len(self._lines)}:1", message)


def read_library_text(path: Path) -> str:
    """The text of a file of the library, or of a file like it. Raises `UsageError`."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}: {error}") from error
