"""An exact script, as a value and as a text: steps that determine everything, and the messages that must result.

Unlike a scenario it has no load. Who leads, what a client sends, and when are given, so that every message of the run
can be written down beforehand. It runs on the simulated runtime only. docs/scenarios.md describes the text. This module
runs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from upheaval.records import MEMBERS_MAX, Expected
from upheaval.scenario.statements import SUFFIX, Options, Statement, Text, read_library_text
from upheaval.scenario.values import LIBRARY
from upheaval_chaos.target import MESSAGES
from upheaval_node.protocol.describe import MESSAGE_NAMES, field_names

EXACT_LIBRARY: Final = LIBRARY / "exact"
MARK: Final = "exact"
"""The statement that only exact scripts have."""


@dataclass(frozen=True, slots=True)
class Start:
    """Start members. `leader` is the only member that may nominate itself; None if any may."""

    members: tuple[int, ...]
    leader: int | None


@dataclass(frozen=True, slots=True)
class Kill:
    """SIGKILL all these members at one moment."""

    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ClientOpen:
    """A client opens a session; the script waits until it is open."""


@dataclass(frozen=True, slots=True)
class ClientFill:
    """The client sends echo requests in sequence until the log ends at exactly this position."""

    position: int


@dataclass(frozen=True, slots=True)
class ClientClose:
    """The client closes its session; the script does not wait for it."""


@dataclass(frozen=True, slots=True)
class WaitLog:
    """Wait until this position is committed on all running members, and the log ends there."""

    position: int


@dataclass(frozen=True, slots=True)
class WaitSent:
    """Wait until the moment at which a member has sent a message with these fields to another one, and no longer."""

    message: str
    source: int
    target: int
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class WaitFollows:
    """Wait until a member follows the leader."""

    member: int


_CLIENT: Final[Mapping[str, Callable[[Statement], "ExactStep"]]] = {
    "open": lambda line: ClientOpen(),  # noqa: ARG005 - as all that read an action
    "fill": lambda line: ClientFill(line.take_number("position")),
    "close": lambda line: ClientClose(),  # noqa: ARG005
}
ExactStep = Start | Kill | ClientOpen | ClientFill | ClientClose | WaitLog | WaitSent | WaitFollows


@dataclass(frozen=True, slots=True)
class ExactScript:
    """One script; each step comes with its statement."""

    name: str
    title: str
    text: str
    members: int
    steps: tuple[tuple[str, ExactStep], ...]
    expected: tuple[Expected, ...]
    promises: tuple[str, ...]


class _Reader:
    """Reads all statements of one text."""

    def __init__(self, text: str, where: str) -> None:
        self._content = text
        self._text = Text(text, where)
        self._title = ""
        self._members = 3
        self._steps: list[tuple[str, ExactStep]] = []
        self._expected: list[Expected] = []
        self._promises: list[str] = []
        self._language: Mapping[str, Callable[[Statement], None]] = {
            "title": self._read_title,
            MARK: self._read_mark,
            "start": self._read_start,
            "kill": lambda line: self._add(line, Kill(self._take_members(line))),
            "client": lambda line: self._add(line, line.take_from("action of a client", _CLIENT)(line)),
            "wait": lambda line: self._add(line, line.take_from("condition", self._conditions)(line)),
            "promise": lambda line: self._promises.append(line.take_promise()),
            "expect": self._read_expect,
        }
        self._conditions: Mapping[str, Callable[[Statement], ExactStep]] = {
            "log": lambda line: WaitLog(line.take_number("position")),
            "sent": self._read_sent,
            "follows": lambda line: WaitFollows(line.member(line.take_word("member"), self._members)),
        }

    def script(self, name: str) -> ExactScript:
        self._text.read_by(self._language, ("title", MARK))
        if not self._title:
            self._text.fail("the script has no title")
        if not self._expected:
            self._text.fail("the script expects no message, so it shows nothing")
        lists = tuple(self._steps), tuple(self._expected), tuple(self._promises)
        return ExactScript(name, self._title, self._content, self._members, *lists)

    def _add(self, line: Statement, step: ExactStep) -> None:
        self._steps.append((str(line), step))

    def _take_members(self, line: Statement) -> tuple[int, ...]:
        members: list[int] = []
        for word in line.take_word("members").split(","):
            member_id = line.member(word, self._members)
            if member_id in members:
                line.fail(f"member {member_id} is named twice", word)
            members.append(member_id)
        return tuple(members)

    def _member_of(self, line: Statement, options: Options, name: str) -> int | None:
        return line.member(options.values[name], self._members) if name in options else None

    def _read_title(self, line: Statement) -> None:
        self._title = line.take_rest("title")

    def _read_mark(self, line: Statement) -> None:
        if self._steps:
            line.fail(f"{MARK} comes before the first step")
        self._members = line.take_options(("members",)).number("members", 3)
        if self._members > MEMBERS_MAX:
            line.fail(f"a cluster has 1 to {MEMBERS_MAX} members, not {self._members}")

    def _read_start(self, line: Statement) -> None:
        members = self._take_members(line)
        options = line.take_options(("leader",))
        self._add(line, Start(members, self._member_of(line, options, "leader")))

    def _read_sent(self, line: Statement) -> WaitSent:
        message = line.take_one_of("message", MESSAGES)
        ends = ("from", "to")
        options = line.take_options((*ends, *field_names(MESSAGES[message])))
        source, target = (self._member_of(line, options, end) for end in ends)
        if source is None or target is None:
            line.fail("write from=member-N and to=member-N")
        if source == target:
            line.fail(f"member-{source} sends no message to itself", options.values["to"])
        return WaitSent(message, source, target, options.of_message(MESSAGES[message](), ends, self._members))

    def _read_expect(self, line: Statement) -> None:
        """Read the lines that follow, up to `end`, verbatim."""
        message = line.take_one_of("message", sorted(MESSAGE_NAMES))
        options = line.take_options(("mask", "from", "first"))
        masked = options.values["mask"].split(",") if "mask" in options else []
        if message in MESSAGES:
            for field in masked:
                line.one_of(field, "field", field_names(MESSAGES[message]))
        lines = self._text.take_block("end")
        if lines is None:
            line.fail("the expected messages are not followed by `end`")
        source, first = self._member_of(line, options, "from"), options.number("first") or None
        self._expected.append(Expected(message, tuple(field.text for field in masked), source, first, lines))


def parse_exact(text: str, *, name: str, where: str) -> ExactScript:
    """Parse a script. Raises `UsageError` with `where`, line and column."""
    return _Reader(text, where).script(name)


def exact_names() -> list[str]:
    """The exact scripts that come with upheaval."""
    return sorted(path.stem for path in EXACT_LIBRARY.glob(f"*{SUFFIX}"))


def find_exact(name: str) -> ExactScript | None:
    """The exact script with that name or in that file; None without a file, or if it is not an exact script."""
    path = Path(name) if name.endswith(SUFFIX) else EXACT_LIBRARY / f"{name}{SUFFIX}"
    if not path.is_file():
        return None
    text = read_library_text(path)
    if not is_exact(text):
        return None
    return parse_exact(text, name=path.stem, where=str(path))


def is_exact(text: str) -> bool:
    """Whether a text has the statement that marks an exact script."""
    return any(statement.first == MARK for statement in Text(text, "").statements())
