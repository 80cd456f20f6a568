"""A reader of EDN, the data notation of Clojure, for the subset that histories use. Its values are JSON values.

Keywords, symbols, characters, fractions and big decimals become a `Word`, lists become arrays, and sets an
`UnorderedSet`. A map key that is neither a word nor a string becomes a word with its text. Tags are ignored; their
values are taken as they are. This module knows nothing of histories.
"""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Final

from upheaval.records.jsonfields import Json
from upheaval.records.values import Frozen, UnorderedSet, Word, edn_text, frozen, thawed

DEPTH_MAX: Final = 64


class EdnError(Exception):
    """The text is not EDN; `line` says where."""

    def __init__(self, line: int, reason: str) -> None:
        super().__init__(reason)
        self.line = line


_TOKEN: Final = re.compile(
    r"""(?P<space> [\s,]+ | ;[^\n]* )
      | (?P<open> \#?\{ | \( | \[ )
      | (?P<close> [\])}] )
      | (?P<string> "(?:[^"\\]|\\.)*" )
      | (?P<discard> \#_ )
      | (?P<tag> \#[A-Za-z][^\s,;"\[\](){}]* )
      | (?P<character> \\(?:[A-Za-z0-9]+|.) )
      | (?P<atom> (?:\#\#)?[^\s,;"\\\[\](){}\#][^\s,;"\\\[\](){}]* )""",
    re.VERBOSE | re.DOTALL,
)
_CLOSES: Final = {"{": "}", "#{": "}", "(": ")", "[": "]"}
_CONSTANTS: Final[dict[str, Json]] = {"nil": None, "true": True, "false": False}
_INTEGER: Final = re.compile(r"([+-]?\d+)N?")
_FLOAT: Final = re.compile(r"([+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)")
_FRACTION: Final = re.compile(r"([+-]?\d+/\d*[1-9]\d*)")
_ESCAPES: Final = {"t": "\t", "r": "\r", "n": "\n", "\\": "\\", '"': '"', "b": "\b", "f": "\f"}
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


def read_forms(text: str) -> Iterator[tuple[int, Json]]:
    """The values of a text, each with the line where it begins. If one vector or list encloses them all, its elements.

    Raises `EdnError` at the first place that is not EDN.
    """
    return _Reader(text).forms()


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = self._tokenized(text)
        self._line = 1

    def forms(self) -> Iterator[tuple[int, Json]]:
        wrapper = ""
        is_first = True
        for kind, token in self._tokens:
            if kind == "open" and token in "([" and is_first:
                wrapper = token
            elif kind == "close" and wrapper and token == _CLOSES[wrapper]:
                wrapper = ""
                for _, after in self._tokens:
                    raise EdnError(self._line, f"expected the end of the file, got {after[:20]!r}")
                return
            elif kind == "discard":
                self._discarded(0)
            elif kind != "tag":
                line = self._line
                yield line, self._form(kind, token, 0)
            is_first = is_first and kind in ("discard", "tag")
        if wrapper:
            raise self._ended(wrapper)

    def _tokenized(self, text: str) -> Iterator[tuple[str, str]]:
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                what = "a string without its end" if text[position] == '"' else f"unknown {text[position]!r}"
                raise EdnError(self._line, what)
            position = match.end()
            kind = match.lastgroup or ""
            if kind != "space":
                yield kind, match.group()
            self._line += match.group().count("\n")

    def _form(self, kind: str, token: str, depth: int) -> Json:
        self._check_depth(depth)
        match kind:
            case "open":
                return self._collection(token, depth)
            case "string":
                return self._string(token)
            case "character":
                return Word(token)
            case "atom":
                return self._atom(token)
            case "tag":
                return self._next(depth, token)
            case _:
                raise EdnError(self._line, f"expected a value, got {token!r}")

    def _check_depth(self, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise EdnError(self._line, f"nested deeper than {DEPTH_MAX}")

    def _next(self, depth: int, wanting: str) -> Json:
        """The value after a tag, or the value that `#_` discards."""
        self._check_depth(depth)
        for kind, token in self._tokens:
            if kind == "discard":
                self._discarded(depth)
            else:
                return self._form(kind, token, depth + 1)
        raise self._ended(wanting)

    def _discarded(self, depth: int) -> None:
        self._next(depth + 1, "#_")

    def _collection(self, opening: str, depth: int) -> Json:
        line = self._line
        items: list[Json] = []
        for kind, token in self._tokens:
            if kind == "discard":
                self._discarded(depth)
            elif kind != "close":
                items.append(self._form(kind, token, depth + 1))
            elif token == _CLOSES[opening]:
                if opening == "{":
                    return self._map(items, line)
                return self._set(items, line) if opening == "#{" else items
            else:
                raise EdnError(self._line, f"expected {_CLOSES[opening]!r}, got {token!r}")
        raise self._ended(opening)

    def _map(self, items: list[Json], line: int) -> Json:
        if len(items) % 2:
            raise EdnError(line, f"a map of {len(items)} values: the last key has none")
        self._require_distinct(items[::2], line, "key")
        return dict(zip(map(_key, items[::2]), items[1::2], strict=True))

    def _set(self, items: list[Json], line: int) -> Json:
        self._require_distinct(items, line, "element")
        return UnorderedSet(items)

    def _require_distinct(self, items: list[Json], line: int, noun: str) -> None:
        known: set[Frozen] = set()
        for item in items:
            value = frozen(item)
            if value in known:
                raise EdnError(line, f"duplicate {noun} {edn_text(item)}")
            known.add(value)

    def _string(self, token: str) -> str:
        def plain(match: re.Match[str]) -> str:
            code, letter = match.groups()
            if code is not None:
                return chr(int(code, 16))
            if letter not in _ESCAPES:
                raise EdnError(self._line, f"unknown escape \\{letter}")
            return _ESCAPES[letter]

        text = _ESCAPE.sub(plain, token[1:-1])
        try:
            return text.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise EdnError(self._line, "half of a surrogate pair") from None

    def _atom(self, token: str) -> Json:
        if token in _CONSTANTS:
            return _CONSTANTS[token]
        for pattern, number in _NUMBERS:
            match = pattern.fullmatch(token)
            if match is not None:
                try:
                    return number(match.group(1))
                except ValueError:
                    raise EdnError(self._line, f"a number of {len(token)} digits") from None
        return Word(token)

    def _ended(self, opening: str) -> EdnError:
        return EdnError(self._line, f"the file ends inside {opening}")


def _key(key: Json) -> str:
    return key if isinstance(key, str) else Word(edn_text(thawed(frozen(key))))


def _ratio(text: str) -> Json:
    value = Fraction(text)
    return value.numerator if value.denominator == 1 else Word(f"{value.numerator}/{value.denominator}")


_NUMBERS: Final[list[tuple[re.Pattern[str], Callable[[str], Json]]]] = [
    (_INTEGER, int),
    (_FLOAT, float),
    (_FRACTION, _ratio),
]
