"""The text of a scenario: one statement a line, `#` begins a comment. docs/scenarios.md describes it.

Whatever is wrong is a `UsageError` that begins with `FILE:LINE:COLUMN`. This module runs nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NoReturn, TypeVar

from upheaval.checkers.promises import Promise, promise_named
from upheaval.cluster import companion_control
from upheaval.errors import UsageError
from upheaval.records import ADMIN_COMMANDS, BACKUP, ENDINGS, MEMBERS_MAX, SOURCES, AdminCommand
from upheaval.scenario.values import (
    LIBRARY,
    SUFFIX,
    AskFor,
    Begin,
    End,
    GiveCommand,
    Heal,
    Inject,
    KeepCompanion,
    Scenario,
    Step,
    WaitCaughtUp,
    WaitCompanion,
    WaitLeader,
    WaitMoment,
    WaitOperations,
    WaitSeconds,
    WaitSent,
    read_library_text,
)
from upheaval.system import COMPONENTS, ClusterSpec
from upheaval.workload import SERVICES, SILENT_SERVICES, WORKBENCH_SERVICE, WorkloadSettings
from upheaval_chaos.datagram_faults import DatagramFault, DatagramFaultKind
from upheaval_chaos.faults import OTHER_THAN, Fault, Group, MemberFault, MemberFaultKind, Members, Selector, Who
from upheaval_chaos.host_faults import HOST_OPTIONS, HostFault, HostFaultKind
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import MESSAGES, Dialler, LinkFaultKind, Means
from upheaval_chaos.toxic_links import CONSENSUS
from upheaval_node.protocol.describe import field_names
from upheaval_node.suggestions import did_you_mean

DEFAULT_WORKLOAD: Final = WorkloadSettings(slots=8, sessions=2, rate=200, keys=4)
BOTH_WAYS: Final = "<->"
ONE_WAY: Final = "->"
OTHERS: Final = LIBRARY / "known"
"""Where the scenarios of known bugs are, of systems that are not ours."""
_WORD: Final = re.compile(r"\S+")
_NAME: Final = re.compile(r"[a-z][a-z0-9-]*")
_LARGEST: Final = 1_000_000_000
_ASKED: Final = (AdminCommand.SNAPSHOT, AdminCommand.SUSPEND, AdminCommand.RESUME)
"""What a leader may be asked for without a word of what becomes of it: nobody ends by it."""
_DIGITS: Final = 10
_SPARING: Final = (Selector.FOLLOWER, Selector.FOLLOWERS, Selector.RUNNING, Selector.ALL, Selector.VICTIM)
_LINK_NUMBERS: Final = ("latency-ms", "bytes-per-second", "timeout-ms")
_DATAGRAM_NUMBERS: Final = ("percent", "jitter-ms", "stream")
_OMITS_USUALLY: Final = {"channel": CONSENSUS, "percent": "100"}

T = TypeVar("T")


class ScenarioError(UsageError):
    """Something is wrong with the text; `message` says what, without the place."""

    def __init__(self, place: str, message: str) -> None:
        super().__init__(f"{place}: {message}")
        self.message = message


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    column: int


class _Line:
    """The words of one statement, taken one after the other."""

    def __init__(self, where: str, number: int, content: str) -> None:
        self._where = where
        self._number = number
        self._content = content
        code = content.partition("#")[0]
        self._words = [_Word(match.group(), match.start() + 1) for match in _WORD.finditer(code)]
        self._end = len(code.rstrip()) + 1
        self._next = 0

    @property
    def is_empty(self) -> bool:
        return not self._words

    @property
    def has_more(self) -> bool:
        return self._next < len(self._words)

    @property
    def column_of_next(self) -> int:
        return self._words[self._next].column if self.has_more else self._end

    def fail(self, message: str, column: int | None = None) -> NoReturn:
        """Point at a column, the last word taken if none is given."""
        at = column if column is not None else self._words[max(self._next - 1, 0)].column
        raise ScenarioError(f"{self._where}:{self._number}:{at}", message)

    def take(self, what: str) -> str:
        if not self.has_more:
            self.fail(f"{what} is missing", self._end)
        self._next += 1
        return self._words[self._next - 1].text

    def take_one_of(self, what: str, choices: Sequence[str]) -> str:
        word = self.take(what)
        if word not in choices:
            self.fail(f"unknown {what} {word!r}: use one of {', '.join(choices)}{did_you_mean(word, choices)}")
        return word

    def take_number(self, what: str) -> int:
        return self.number(self.take(what), what)

    def number(self, word: str, what: str, least: int = 1) -> int:
        is_number = word.isascii() and word.isdigit() and len(word) <= _DIGITS
        if not is_number or not least <= int(word) <= _LARGEST:
            self.fail(f"{what} must be a number from {least} to {_LARGEST}, not {word!r}")
        return int(word)

    def take_name(self, what: str) -> str:
        word = self.take(what)
        if not _NAME.fullmatch(word):
            self.fail(f"{what} {word!r}: use small letters, digits and hyphens")
        return word

    def take_options(self, allowed: Sequence[str]) -> dict[str, str]:
        """The rest of the line as `name=value`."""
        options: dict[str, str] = {}
        while self.has_more:
            name, separator, value = self.take("option").partition("=")
            if name not in allowed:
                known = f"use one of {', '.join(allowed)}" if allowed else "there are none here"
                self.fail(f"unknown option {name!r}: {known}{did_you_mean(name, allowed)}")
            if not separator or not value:
                self.fail(f"option {name} needs a value: {name}=VALUE")
            if name in options:
                self.fail(f"duplicate option {name}")
            options[name] = value
        return options

    def take_rest(self, what: str) -> str:
        """Everything up to the end of the line or the comment, as it stands."""
        if not self.has_more:
            self.fail(f"{what} is missing", self._end)
        rest = self._content[self._words[self._next].column - 1 : self._end - 1]
        self._next += 1
        return rest

    def finish(self) -> None:
        if self.has_more:
            self._next += 1
            self.fail(f"unexpected {self._words[self._next - 1].text!r}")

    def checked(self, make: Callable[[], T]) -> T:
        """What `make` makes; a value that refuses its parameters is an error of this line."""
        try:
            return make()
        except UsageError as error:
            self.fail(str(error), self._words[0].column)


class _Parser:
    """Reads all lines of one text."""

    def __init__(self, text: str, where: str) -> None:
        self._text = text
        self._where = where
        self._title = ""
        self._cluster = ClusterSpec(sync_level=1)
        self._workload = DEFAULT_WORKLOAD
        self._steps: list[Step] = []
        self._promises: list[str] = []
        self._active: set[str] = set()
        self._known: set[str] = set()
        self._means: Means | None = None
        self._statement = ""
        self._ended_by = ""
        self._backup_runs = False
        self._statements: dict[str, Callable[[_Line], None]] = {
            "title": self._read_title,
            "cluster": self._read_cluster,
            "workload": self._read_workload,
            "wait": self._read_wait,
            "inject": self._read_fault,
            "heal": self._read_heal,
            "begin": self._read_fault,
            "end": self._read_heal,
            "promise": self._read_promise,
            **dict.fromkeys(ADMIN_COMMANDS, self._read_command),
            "ask": self._read_ask,
            BACKUP: self._read_backup,
        }

    def parse(self, name: str) -> Scenario:
        for line in self._lines():
            self._statement = line.take_one_of("statement", tuple(self._statements))
            self._statements[self._statement](line)
            line.finish()
        last = self._text.count("\n") + 1
        if not self._title:
            raise UsageError(f"{self._where}:{last}:1: the scenario has no title")
        if not any(isinstance(step, WaitOperations | WaitMoment) for step in self._steps):
            raise UsageError(f"{self._where}:{last}:1: the scenario never waits for operations, so it judges nothing")
        if self._ended_by:
            raise UsageError(f"{self._where}:{last}:1: the cluster ends by {self._ended_by}: write `start` after it")
        return Scenario(
            name,
            self._title,
            self._text,
            self._cluster,
            replace(self._workload, service=self._cluster.service),
            tuple(self._steps),
            tuple(self._promises),
        )

    def _lines(self) -> Iterator[_Line]:
        for number, content in enumerate(self._text.split("\n"), start=1):
            line = _Line(self._where, number, content)
            if not line.is_empty:
                yield line

    def _read_title(self, line: _Line) -> None:
        self._title = line.take_rest("title")
        while line.has_more:
            line.take("title")

    def _read_cluster(self, line: _Line) -> None:
        if self._known:
            line.fail("the cluster stands above its faults")
        names = ("members", "components", "sync-level", "service", "beside", "max-sessions", "leader-disconnect-ms")
        options = line.take_options(names)
        members = line.number(options.get("members", "3"), "members")
        if members > MEMBERS_MAX:
            line.fail(f"a cluster has 1 to {MEMBERS_MAX} members, not {members}")
        if options.get("components", "together") not in ("together", "split"):
            line.fail(f"components {options['components']!r}: use together or split")
        if options.get("sync-level", "1") not in ("0", "1", "2"):
            line.fail(f"sync-level {options['sync-level']!r}: use 0, 1 or 2")
        service = options.get("service", WORKBENCH_SERVICE)
        if service not in SERVICES:
            line.fail(f"service {service!r}: use one of {', '.join(SERVICES)}{did_you_mean(service, SERVICES)}")
        beside = tuple(options["beside"].split(",")) if "beside" in options else ()
        for name in beside:
            if name not in SILENT_SERVICES:
                line.fail(f"unknown service {name!r} beside another: use one of {', '.join(SILENT_SERVICES)}")
        level = int(options.get("sync-level", "1"))
        components = options.get("components", "together")
        sessions, disconnect_ms = (line.number(options[name], name) if name in options else 0 for name in names[-2:])
        self._cluster = ClusterSpec(
            members,
            components,
            sync_level=level,
            service=service,
            more_services=beside,
            max_sessions=sessions,
            leader_disconnect_ms=disconnect_ms,
        )

    def _read_workload(self, line: _Line) -> None:
        options = line.take_options(("rate", "slots", "sessions", "keys"))
        usual = DEFAULT_WORKLOAD

        def number(name: str, otherwise: int) -> int:
            return line.number(options[name], name) if name in options else otherwise

        self._workload = replace(
            usual,
            rate=number("rate", usual.rate),
            slots=number("slots", usual.slots),
            sessions=number("sessions", usual.sessions),
            keys=number("keys", usual.keys),
        )

    def _read_wait(self, line: _Line) -> None:
        what = line.take_one_of(
            "condition", ("operations", "leader", "caught-up", "backup", "moment", "seconds", "sent")
        )
        step: Step
        if what == "operations":
            step = WaitOperations(line.take_number("number of operations"))
        elif what == "seconds":
            step = WaitSeconds(float(line.take_number("number of seconds")))
        elif what == "caught-up":
            step = WaitCaughtUp(self._take_fault(line, self._known))
        elif what == "backup":
            line.take_one_of("condition of a backup", ("caught-up",))
            if not self._backup_runs:
                line.fail("no backup runs here: write `backup start` above")
            step = WaitCompanion()
        elif what == "moment":
            step = self._read_moment(line)
        elif what == "sent":
            step = self._read_sent(line)
        elif line.has_more:
            line.take_one_of("condition of a leader", ("other-than",))
            step = WaitLeader(self._take_fault(line, self._known))
        else:
            step = WaitLeader()
        self._steps.append(step)

    @staticmethod
    def _read_moment(line: _Line) -> WaitMoment:
        options = line.take_options(("operations", "after-ms"))
        operations, after_ms = (
            line.number(options[name], name, least=0) if name in options else 0 for name in ("operations", "after-ms")
        )
        return WaitMoment(operations, after_ms)

    def _read_sent(self, line: _Line) -> WaitSent:
        message = line.take_one_of("message", tuple(MESSAGES))
        column = line.column_of_next
        options = line.take_options(("from", "to", *field_names(MESSAGES[message])))
        ends = (options.pop(each, "") for each in ("from", "to"))
        source, target = (self._who(line, each, column) if each else None for each in ends)
        return WaitSent(message, source, target, tuple(options.items()))

    def _read_fault(self, line: _Line) -> None:
        name = line.take_name("name of the fault")
        if name in self._active:
            line.fail(f"fault {name!r} is there already: heal it first, or give this one another name")
        kinds = [kind.value for kind in (*MemberFaultKind, *HostFaultKind, *LinkFaultKind, *DatagramFaultKind)]
        kind = line.take_one_of("fault", kinds)
        if kind in list(LinkFaultKind):
            fault = self._read_link_fault(line, LinkFaultKind(kind))
        elif kind in list(DatagramFaultKind):
            fault = self._read_datagram_fault(line, DatagramFaultKind(kind))
        elif kind in list(HostFaultKind):
            fault = self._read_host_fault(line, HostFaultKind(kind))
        else:
            fault = self._read_member_fault(line, MemberFaultKind(kind))
        self._active.add(name)
        self._known.add(name)
        self._steps.append(Inject(name, fault) if self._statement == "inject" else Begin(name, fault, is_drawn=False))

    def _read_member_fault(self, line: _Line, kind: MemberFaultKind) -> Fault:
        members = self._take_members(line)
        component = line.take_options(("component",)).get("component")
        if component is not None:
            if component not in COMPONENTS:
                hint = did_you_mean(component, COMPONENTS)
                line.fail(f"unknown component {component!r}: use one of {', '.join(COMPONENTS)}{hint}")
            if self._cluster.components != "split":
                line.fail("members run their components together: write `cluster components=split` above")
        fault = line.checked(lambda: MemberFault(kind, members, component))
        line.checked(lambda: fault.require_possible(self._cluster.members))
        return fault

    def _read_host_fault(self, line: _Line, kind: HostFaultKind) -> Fault:
        members, option = self._take_members(line), HOST_OPTIONS.get(kind)
        if self._cluster.components == "split":
            line.fail(f"{kind} is done on the simulated runtime, which runs components together: leave out split")
        amount = 0
        for name, word in line.take_options([option] if option else []).items():
            sign, digits = (-1, word[1:]) if word.startswith("-") else (1, word)
            amount = sign * line.number(digits, name, least=0)
        fault = line.checked(lambda: HostFault(kind, members, amount))
        line.checked(lambda: fault.require_possible(self._cluster.members))
        return fault

    def _take_ends(self, line: _Line) -> tuple[Who, Who, bool]:
        sources = self._take_members(line)
        arrow = line.take_one_of("direction", (ONE_WAY, BOTH_WAYS))
        return sources, self._take_members(line), arrow == BOTH_WAYS

    def _read_datagram_fault(self, line: _Line, kind: DatagramFaultKind) -> Fault:
        sources, targets, both = self._take_ends(line)
        usual = _OMITS_USUALLY if kind is DatagramFaultKind.OMIT else {}
        options = {**usual, **line.take_options((*_DATAGRAM_NUMBERS, "channel", "frames", "message"))}
        percent, jitter, stream = (
            line.number(options[name], name) if name in options else 0 for name in _DATAGRAM_NUMBERS
        )
        channel, frames, message = (options.get(name, "") for name in ("channel", "frames", "message"))
        fault = line.checked(
            lambda: DatagramFault(kind, sources, targets, both, percent, jitter, channel, frames, stream, message)
        )
        line.checked(lambda: fault.require_possible(self._cluster.members))
        self._require_one_means(line, fault)
        return fault

    def _read_link_fault(self, line: _Line, kind: LinkFaultKind) -> Fault:
        sources, targets, both = self._take_ends(line)
        options = line.take_options((*_LINK_NUMBERS, "channel", "dialled-by", "by"))
        latency, rate, timeout = (line.number(options[name], name) if name in options else 0 for name in _LINK_NUMBERS)
        means = options.get("by", Means.PROXY)
        if means not in list(Means):
            line.fail(f"by={means}: use {' or '.join(Means)}")
        dialler = options.get("dialled-by", Dialler.ANY)
        if dialler not in list(Dialler):
            line.fail(f"dialled-by={dialler}: use {Dialler.SOURCE} (the left end) or {Dialler.TARGET} (the right one)")
        channel = options.get("channel", "")
        fault = line.checked(
            lambda: LinkFault(
                kind, sources, targets, both, latency, rate, timeout, channel, Means(means), Dialler(dialler)
            )
        )
        line.checked(lambda: fault.require_possible(self._cluster.members))
        self._require_one_means(line, fault)
        return fault

    def _require_one_means(self, line: _Line, fault: LinkFault | DatagramFault) -> None:
        """Members whose links have proxies do not send each other packets."""
        if self._means not in (None, fault.means):
            line.fail(f"the links of one cluster are broken by {self._means} or by {fault.means}, not by both")
        self._means = fault.means

    def _read_heal(self, line: _Line) -> None:
        name = self._take_fault(line, self._active)
        self._active.discard(name)
        self._steps.append(Heal(name) if self._statement == "heal" else End(name))

    def _read_command(self, line: _Line) -> None:
        command = self._statement
        if self._ended_by and command != AdminCommand.START:
            line.fail(f"nobody takes {command} after {self._ended_by}: write `start` before it")
        self._ended_by = command if command in ENDINGS else ""
        self._steps.append(GiveCommand(command))

    def _read_ask(self, line: _Line) -> None:
        command = line.take_one_of("command", _ASKED)
        self._steps.append(AskFor(AdminCommand(command)))

    def _read_backup(self, line: _Line) -> None:
        action = line.take_one_of("action", companion_control.ACTIONS)
        is_start = action == companion_control.START
        if is_start is self._backup_runs:
            line.fail("the backup is already running" if is_start else f"no backup is running: cannot {action} it")
        source = line.take_options(("source",) if is_start else ()).get("source", SOURCES[0])
        if source not in SOURCES:
            line.fail(f"source={source}: use one of {', '.join(SOURCES)}{did_you_mean(source, SOURCES)}")
        self._backup_runs = is_start
        self._steps.append(KeepCompanion(action, source))

    def _read_promise(self, line: _Line) -> None:
        text = line.take_rest("promise")
        promise = promise_named(text)
        if promise is None:
            line.fail(f"unknown promise {text!r}: use one of {', '.join(Promise)}{did_you_mean(text, Promise)}")
        self._promises.append(promise)
        while line.has_more:
            line.take("promise")

    def _take_members(self, line: _Line) -> Who:
        column = line.column_of_next
        return self._who(line, line.take("target"), column)

    def _who(self, line: _Line, words: str, column: int) -> Who:
        parts = []
        for word in words.split(","):
            parts.append(self._members(line, word, column))
            column += len(word) + 1
        return parts[0] if len(parts) == 1 else Group(tuple(parts))

    def _members(self, line: _Line, word: str, column: int) -> Members:
        word, sign, other = word.partition(OTHER_THAN)
        if sign:
            self._require_fault(line, other, self._known)
            if word not in _SPARING:
                line.fail(f"{word}{sign}{other}: use one of {', '.join(_SPARING)} before {sign}", column)
        if word in list(Selector):
            return Members(Selector(word), other_than=other)
        prefix, _, digits = word.rpartition("-")
        if prefix != "member" or not digits.isascii() or not digits.isdigit() or len(digits) > _DIGITS:
            hint = did_you_mean(word, (*Selector, *(f"member-{each}" for each in range(self._cluster.members))))
            line.fail(f"unknown target {word!r}: use one of {', '.join(Selector)}, member-N{hint}", column)
        if int(digits) >= self._cluster.members:
            line.fail(f"unknown {word}: this cluster has {self._cluster.members} members", column)
        return Members(member_id=int(digits))

    def _take_fault(self, line: _Line, names: set[str]) -> str:
        return self._require_fault(line, line.take("name of a fault"), names)

    @staticmethod
    def _require_fault(line: _Line, name: str, names: set[str]) -> str:
        if name not in names:
            known = f"there is {', '.join(sorted(names))}" if names else "there is none here"
            line.fail(f"no fault is called {name!r}: {known}{did_you_mean(name, names)}")
        return name


def parse_scenario(text: str, *, name: str, where: str) -> Scenario:
    """The scenario that a text states. Raises `UsageError` with `where`, line and column."""
    return _Parser(text, where).parse(name)


def scenario_names() -> list[str]:
    """The scenarios that come with upheaval."""
    return sorted(path.stem for path in LIBRARY.glob(f"*{SUFFIX}"))


def load_scenario(name: str) -> Scenario:
    """One of the library or of a known bug by its name, or any by the path of its file."""
    path = Path(name) if name.endswith(SUFFIX) else LIBRARY / f"{name}{SUFFIX}"
    if not name.endswith(SUFFIX) and not path.is_file():
        path = OTHERS / path.name
    if not path.is_file():
        known, hint = ", ".join(scenario_names()), did_you_mean(name, scenario_names())
        raise UsageError(f"unknown scenario {name!r}: use one of {known}, or the path of a {SUFFIX} file{hint}")
    text = read_library_text(path)
    return parse_scenario(text, name=path.stem, where=str(path))
