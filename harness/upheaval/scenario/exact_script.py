"""An exact script as a value and as a text: steps that decide everything, and the messages that must come of them.

Unlike a scenario it has no load: who leads, what a client sends and when are given, so that every message of the run
can be written down beforehand. It runs on the simulated runtime only. docs/scenarios.md describes the text. Whatever is
wrong with it is a `UsageError` that begins with `FILE:LINE`. This module runs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from upheaval.checkers.promises import Promise, promise_named
from upheaval.errors import UsageError
from upheaval.records import MEMBERS_MAX
from upheaval.scenario.values import LIBRARY, SUFFIX, read_library_text
from upheaval_node.protocol_trace import MESSAGE_NAMES
from upheaval_node.suggestions import did_you_mean

EXACT_LIBRARY: Final = LIBRARY / "exact"
MARK: Final = "exact"
"""The first statement of an exact script."""
NUMBER_DIGITS: Final = 18


@dataclass(frozen=True, slots=True)
class Start:
    """Start members; `leader` is the one that may nominate itself, None for any."""

    members: tuple[int, ...]
    leader: int | None


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL, all at one moment."""

    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClientOpen:
    """A client opens a session, and has it."""


@dataclass(frozen=True, slots=True)
class ClientFill:
    """The client sends echo requests, one after the other, until the log ends at exactly this position."""

    position: int


@dataclass(frozen=True, slots=True)
class ClientClose:
    """The client closes its session; nobody waits for it."""


@dataclass(frozen=True, slots=True)
class WaitLog:
    """Until this position is committed on all members that run, and the log ends there."""

    position: int


@dataclass(frozen=True, slots=True)
class WaitSent:
    """Until a member has sent a message with these fields to another one; the very moment, and not a bit later."""

    message: str
    source: int
    target: int
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class WaitFollows:
    """Until a member follows the leader."""

    member: int


ExactStep = Start | Kill | ClientOpen | ClientFill | ClientClose | WaitLog | WaitSent | WaitFollows


@dataclass(frozen=True, slots=True)
class Expected:
    """The messages of one name that are to be sent, in the notation of the seeds.

    Only those of the member `source`, and only the `first`, if these are not None.
    """

    message: str
    masked: frozenset[str]
    source: int | None
    first: int | None
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExactScript:
    """One script; each step stands with its statement."""

    name: str
    title: str
    text: str
    members: int
    steps: tuple[tuple[str, ExactStep], ...]
    expected: tuple[Expected, ...]
    promises: tuple[str, ...]


class _Parser:
    """Reads one text line by line."""

    def __init__(self, text: str, where: str) -> None:
        self._lines = text.split("\n")
        self._where = where
        self._number = 0
        self._words: list[str] = []
        self._title = ""
        self._members = 3
        self._steps: list[ExactStep] = []
        self._texts: list[str] = []
        self._expected: list[Expected] = []
        self._promises: list[str] = []
        self._statements: Mapping[str, Callable[[], None]] = {
            "title": self._read_title,
            MARK: self._read_mark,
            "start": self._read_start,
            "kill": lambda: self._steps.append(Kill(self._take_members())),
            "client": self._read_client,
            "wait": self._read_wait,
            "promise": self._read_promise,
            "expect": self._read_expect,
        }

    def parse(self, name: str) -> ExactScript:
        text = "\n".join(self._lines)
        while self._number < len(self._lines):
            self._words = self._lines[self._number].partition("#")[0].split()
            self._number += 1
            if self._words:
                statement, known = " ".join(self._words), len(self._steps)
                self._statements[self._take_one_of("statement", tuple(self._statements))]()
                if self._words:
                    self._fail(f"unexpected {self._words[0]!r}")
                self._texts += [statement] * (len(self._steps) - known)
        if not self._title:
            self._fail("the script has no title")
        if not self._expected:
            self._fail("the script expects no message, so it shows nothing")
        steps = tuple(zip(self._texts, self._steps, strict=True))
        return ExactScript(name, self._title, text, self._members, steps, tuple(self._expected), tuple(self._promises))

    def _fail(self, message: str) -> NoReturn:
        raise UsageError(f"{self._where}:{self._number}: {message}")

    def _take(self, what: str) -> str:
        if not self._words:
            self._fail(f"{what} is missing")
        return self._words.pop(0)

    def _take_one_of(self, what: str, choices: tuple[str, ...]) -> str:
        word = self._take(what)
        if word not in choices:
            self._fail(f"unknown {what} {word!r}: use one of {', '.join(choices)}{did_you_mean(word, choices)}")
        return word

    def _take_number(self, what: str) -> int:
        return self._as_number(self._take(what), what)

    def _as_number(self, word: str, what: str) -> int:
        if not word.isascii() or not word.isdigit() or len(word) > NUMBER_DIGITS:
            self._fail(f"{what} must be a number, not {word!r}")
        return int(word)

    def _as_member(self, word: str) -> int:
        prefix, _, digits = word.rpartition("-")
        if prefix != "member" or digits not in map(str, range(self._members)):
            hint = did_you_mean(word, (f"member-{each}" for each in range(self._members)))
            self._fail(f"unknown member {word!r}: use member-0 to member-{self._members - 1}{hint}")
        return int(digits)

    def _take_members(self) -> tuple[int, ...]:
        return tuple(self._as_member(word) for word in self._take("members").split(","))

    def _take_options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        while self._words:
            name, equals, value = self._words.pop(0).partition("=")
            if not equals or not value:
                self._fail(f"option {name!r} needs a value: NAME=VALUE")
            options[name] = value
        return options

    def _take_rest(self) -> str:
        rest, self._words = " ".join(self._words), []
        return rest

    def _read_title(self) -> None:
        self._title = self._take_rest()

    def _read_mark(self) -> None:
        options = self._take_options()
        self._members = self._as_number(options.pop("members", "3"), "members")
        if options or not 1 <= self._members <= MEMBERS_MAX:
            self._fail(f"write `{MARK} members=N`, with 1 to {MEMBERS_MAX} members")

    def _read_start(self) -> None:
        members = self._take_members()
        options = self._take_options()
        leader = options.pop("leader", None)
        if options:
            self._fail(f"unknown option {next(iter(options))!r}: use leader=member-N")
        self._steps.append(Start(members, None if leader is None else self._as_member(leader)))

    def _read_client(self) -> None:
        match self._take_one_of("action of a client", ("open", "fill", "close")):
            case "open":
                self._steps.append(ClientOpen())
            case "fill":
                self._steps.append(ClientFill(self._take_number("position")))
            case _:
                self._steps.append(ClientClose())

    def _read_wait(self) -> None:
        match self._take_one_of("condition", ("log", "sent", "follows")):
            case "log":
                self._steps.append(WaitLog(self._take_number("position")))
            case "follows":
                self._steps.append(WaitFollows(self._as_member(self._take("member"))))
            case _:
                message = self._take_message()
                options = self._take_options()
                source, target = (self._as_member(options.pop(end, "")) for end in ("from", "to"))
                self._steps.append(WaitSent(message, source, target, tuple(options.items())))

    def _take_message(self) -> str:
        message = self._take("message")
        if message not in MESSAGE_NAMES:
            self._fail(f"unknown message {message!r}{did_you_mean(message, MESSAGE_NAMES)}")
        return message

    def _read_promise(self) -> None:
        text = self._take_rest()
        promise = promise_named(text)
        if promise is None:
            self._fail(f"unknown promise {text!r}: use one of {', '.join(Promise)}{did_you_mean(text, Promise)}")
        self._promises.append(promise)

    def _read_expect(self) -> None:
        """The lines that follow, up to `end`, as they stand."""
        message = self._take_message()
        options = self._take_options()
        first = options.pop("first", None)
        source = self._as_member(options.pop("from")) if "from" in options else None
        masked = frozenset(options.pop("mask", "").split(",")) - {""}
        if options:
            self._fail(f"unknown option {next(iter(options))!r}: use mask=FIELD,FIELD, from=member-N and first=N")
        lines: list[str] = []
        while self._number < len(self._lines) and self._lines[self._number].strip() != "end":
            if self._lines[self._number].strip():
                lines.append(self._lines[self._number].strip())
            self._number += 1
        if self._number == len(self._lines):
            self._fail("the expected messages are not followed by `end`")
        self._number += 1
        count = None if first is None else self._as_number(first, "first")
        self._expected.append(Expected(message, masked, source, count, tuple(lines)))


def parse_exact(text: str, *, name: str, where: str) -> ExactScript:
    """The script that a text states. Raises `UsageError` with `where` and the line."""
    return _Parser(text, where).parse(name)


def exact_names() -> list[str]:
    """The exact scripts that come with upheaval."""
    return sorted(path.stem for path in EXACT_LIBRARY.glob(f"*{SUFFIX}"))


def find_exact(name: str) -> ExactScript | None:
    """The exact script of that name, or in that file; None when what has the name is something else."""
    path = Path(name) if name.endswith(SUFFIX) else EXACT_LIBRARY / f"{name}{SUFFIX}"
    if not path.is_file():
        return None
    text = read_library_text(path)
    if not is_exact(text):
        return None
    return parse_exact(text, name=path.stem, where=str(path))


def is_exact(text: str) -> bool:
    """Whether a text says of itself that it is an exact script."""
    return any(line.split()[:1] == [MARK] for line in text.split("\n"))
