"""The language of scenarios: the effect of each statement on the scenario that is read. See docs/scenarios.md.

This module runs nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from upheaval.cluster import companion_control
from upheaval.errors import UsageError
from upheaval.records import ADMIN_COMMANDS, BACKUP, ENDINGS, MEMBERS_MAX, SOURCES, SYNC_LEVEL_MAX, AdminCommand
from upheaval.scenario.statements import SUFFIX, Statement, Text, Word, read_library_text
from upheaval.scenario.values import (
    LIBRARY,
    STATES,
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
    WaitState,
)
from upheaval.system import COMPONENTS, ClusterSpec, parse_app_version, require_rules
from upheaval.workload import SERVICES, SILENT_SERVICES, WORKBENCH_SERVICE, WorkloadSettings
from upheaval_chaos.datagram_faults import DatagramFault, DatagramFaultKind
from upheaval_chaos.faults import (
    OTHER_THAN,
    Fault,
    Group,
    MemberFault,
    MemberFaultKind,
    Members,
    Roster,
    Selector,
    Who,
    possible_ends,
    require_some_leader,
)
from upheaval_chaos.file_faults import FileFault, FileFaultKind, Part
from upheaval_chaos.host_faults import HOST_OPTIONS, IN_CONTAINERS, HostFault, HostFaultKind
from upheaval_chaos.link_faults import LinkFault
from upheaval_chaos.target import MESSAGES, Dialler, LinkFaultKind, Means
from upheaval_chaos.toxic_links import CONSENSUS
from upheaval_node.cluster.rules import OWN
from upheaval_node.protocol.describe import field_names
from upheaval_node.suggestions import did_you_mean

DEFAULT_WORKLOAD: Final = WorkloadSettings(slots=8, sessions=2, rate=200, keys=4)
BOTH_WAYS: Final = "<->"
ONE_WAY: Final = "->"
OTHERS: Final = LIBRARY / "known"
"""The folder with the scenarios of known bugs in other systems."""
_ASKED: Final = (AdminCommand.SNAPSHOT, AdminCommand.SUSPEND, AdminCommand.RESUME, *ENDINGS)
"""The commands that a leader may get without a wait for the outcome."""
_SPARING: Final = (Selector.FOLLOWER, Selector.FOLLOWERS, Selector.RUNNING, Selector.ALL, Selector.VICTIM)
_OMITS_USUALLY: Final = 100
_ONCE: Final = ("title", "cluster", "workload", "witnesses", "invariants")
_CLUSTER_OPTIONS: Final = (
    "members",
    "components",
    "sync-level",
    "service",
    "beside",
    "max-sessions",
    "leader-disconnect-ms",
    "session-timeout-ms",
    "app-version",
    "compatibility",
)


class _Reader:
    """Reads all statements of one text."""

    def __init__(self, text: str, where: str) -> None:
        self._content = text
        self._text = Text(text, where)
        self._title = ""
        self._cluster = ClusterSpec(sync_level=1)
        self._workload = DEFAULT_WORKLOAD
        self._steps: list[Step] = []
        self._promises: list[str] = []
        self._witnesses = True
        self._has_invariants = False
        self._active: set[str] = set()
        self._known: set[str] = set()
        self._entered: set[str] = set()
        """The names among them of members that entered a state."""
        self._means: Means | None = None
        self._ended_by = ""
        self._backup_runs = False
        self._language: Mapping[str, Callable[[Statement], None]] = {
            "title": self._read_title,
            "cluster": self._read_cluster,
            "workload": self._read_workload,
            "wait": lambda line: self._steps.append(line.take_from("condition", self._conditions)(line)),
            "inject": self._read_fault,
            "heal": self._read_heal,
            "begin": self._read_fault,
            "end": self._read_heal,
            "promise": lambda line: self._promises.append(line.take_promise()),
            **dict.fromkeys(ADMIN_COMMANDS, self._read_command),
            "ask": self._read_ask,
            "witnesses": self._read_witnesses,
            "invariants": self._read_invariants,
            BACKUP: self._read_backup,
        }
        self._conditions: Mapping[str, Callable[[Statement], Step]] = {
            "operations": lambda line: WaitOperations(line.take_number("number of operations")),
            "leader": self._read_leader,
            "caught-up": lambda line: WaitCaughtUp(self._take_fault(line, self._known)),
            "backup": self._read_caught_up_backup,
            "moment": self._read_moment,
            "seconds": lambda line: WaitSeconds(float(line.take_number("number of seconds"))),
            "sent": self._read_sent,
            "state": self._read_state,
        }
        self._faults: Mapping[str, Callable[[Statement, str], Fault]] = {
            **dict.fromkeys(MemberFaultKind, self._read_member_fault),
            **dict.fromkeys(HostFaultKind, self._read_host_fault),
            **dict.fromkeys(FileFaultKind, self._read_file_fault),
            **dict.fromkeys(LinkFaultKind, self._read_link_fault),
            **dict.fromkeys(DatagramFaultKind, self._read_datagram_fault),
        }

    def scenario(self, name: str) -> Scenario:
        self._text.read_by(self._language, _ONCE)
        if not self._title:
            self._text.fail("the scenario has no title")
        if not any(isinstance(step, WaitOperations | WaitMoment) for step in self._steps):
            self._text.fail("the scenario never waits for operations, so it judges nothing")
        if self._ended_by:
            self._text.fail(f"the cluster ends by {self._ended_by}: write `start` after it")
        scenario = Scenario(
            name,
            self._title,
            self._content,
            self._cluster,
            replace(self._workload, service=self._cluster.service),
            tuple(self._steps),
            tuple(self._promises),
            self._witnesses,
            self._has_invariants,
        )
        if not scenario.runtimes:
            self._text.fail(f"no runtime has all of it: {'; '.join(scenario.not_simulated)}")
        return scenario

    def _read_title(self, line: Statement) -> None:
        self._title = line.take_rest("title")

    def _read_cluster(self, line: Statement) -> None:
        self._require_first(line)
        options = line.take_options(_CLUSTER_OPTIONS)
        members = options.number("members", 3)
        if members > MEMBERS_MAX:
            line.fail(f"a cluster has 1 to {MEMBERS_MAX} members, not {members}")
        rules = options.values["compatibility"].text if "compatibility" in options.values else OWN
        compatibility = line.checked(lambda: require_rules(rules))
        version = line.checked(lambda: parse_app_version(options.text("app-version", "0.0.0")))
        if "app-version" in options and not version:
            line.fail("app-version is at least 0.0.1: leave it out for the system's default")
        beside = options.values["beside"].split(",") if "beside" in options else ()
        self._cluster = ClusterSpec(
            members,
            options.one_of("components", ("together", "split"), "together"),
            sync_level=int(options.one_of("sync-level", [str(level) for level in range(SYNC_LEVEL_MAX + 1)], "1")),
            service=options.one_of("service", SERVICES, WORKBENCH_SERVICE),
            more_services=tuple(line.one_of(name, "service beside another", SILENT_SERVICES) for name in beside),
            max_sessions=options.number("max-sessions"),
            leader_disconnect_ms=options.number("leader-disconnect-ms"),
            compatibility=compatibility,
            app_version=version,
            session_timeout_ms=options.number("session-timeout-ms"),
        )

    def _require_first(self, line: Statement) -> None:
        """Reject what holds from the beginning of the load after a step, where it reads as if it began there."""
        if self._steps:
            line.fail(f"the {line.first} comes before the first step")

    def _read_workload(self, line: Statement) -> None:
        self._require_first(line)
        options, usual = line.take_options(("rate", "slots", "sessions", "keys", "silent")), DEFAULT_WORKLOAD
        self._workload = replace(
            usual,
            rate=options.number("rate", usual.rate),
            slots=options.number("slots", usual.slots),
            sessions=options.number("sessions", usual.sessions),
            keys=options.number("keys", usual.keys),
            silent=options.number("silent", usual.silent),
        )

    def _read_leader(self, line: Statement) -> WaitLeader:
        if not line.has_more:
            return WaitLeader()
        line.take_one_of("condition of a leader", ("other-than",))
        return WaitLeader(self._take_fault(line, self._known))

    def _read_caught_up_backup(self, line: Statement) -> WaitCompanion:
        line.take_one_of("condition of a backup", ("caught-up",))
        if not self._backup_runs:
            line.fail("no backup runs here: write `backup start` above")
        return WaitCompanion()

    @staticmethod
    def _read_moment(line: Statement) -> WaitMoment:
        options = line.take_options(("operations", "after-ms"))
        return WaitMoment(options.number("operations", least=0), options.number("after-ms", least=0))

    def _read_sent(self, line: Statement) -> WaitSent:
        message = line.take_one_of("message", MESSAGES)
        ends = ("from", "to")
        options = line.take_options((*ends, *field_names(MESSAGES[message])))
        for end in ends:
            if Selector.CLIENTS in options.text(end).split(","):
                line.fail(f"{end}: expected members, which send it to each other", options.values[end])
        source, target = (self._who(line, options.values[end]) if end in options else None for end in ends)
        members, anyone = self._cluster.members, Members(Selector.ALL)
        require_two = partial(_require_two, source or anyone, target or anyone)
        line.checked(partial(require_some_leader, members, require_two))
        return WaitSent(message, source, target, options.of_message(MESSAGES[message](), ends, members))

    def _read_state(self, line: Statement) -> WaitState:
        state = line.take_one_of("state", STATES)
        options = line.take_options(("of", "as"))
        if Selector.CLIENTS in options.text("of").split(","):
            line.fail("of: expected members, which have states", options.values["of"])
        who = self._who(line, options.values["of"]) if "of" in options else None
        if who is not None:
            line.checked(lambda: require_some_leader(self._cluster.members, who.possible))
        name = line.checked_name("name of the member", options.values["as"]) if "as" in options else ""
        if name in self._known.difference(self._entered):
            line.fail(f"as: a fault is called {name!r}", options.values["as"])
        if name:
            self._entered.add(name)
            self._known.add(name)
        return WaitState(state, who, name=name)

    def _read_fault(self, line: Statement) -> None:
        name = line.take_name("name of the fault")
        if name in self._active:
            line.fail(f"fault {name!r} is already active: heal it first, or give this one another name")
        if name in self._entered:
            line.fail(f"a member is called {name!r}: give the fault another name")
        kind = line.take_one_of("fault", self._faults)
        fault = self._faults[kind](line, kind)
        line.checked(lambda: fault.require_possible(self._cluster.members))
        if isinstance(fault, LinkFault | DatagramFault):
            self._require_one_means(line, fault.means)
        self._active.add(name)
        self._known.add(name)
        self._steps.append(Inject(name, fault) if line.first == "inject" else Begin(name, fault, is_drawn=False))

    def _read_member_fault(self, line: Statement, kind: str) -> MemberFault:
        members = self._take_members(line)
        options = line.take_options(("component",))
        component = options.one_of("component", COMPONENTS) or None
        if component is not None and self._cluster.components != "split":
            line.fail("members run their components together: write `cluster components=split` above")
        return line.checked(lambda: MemberFault(MemberFaultKind(kind), members, component))

    def _read_host_fault(self, line: Statement, kind: str) -> HostFault:
        members, host_kind = self._take_members(line), HostFaultKind(kind)
        if self._cluster.components == "split" and host_kind not in IN_CONTAINERS:
            line.fail(f"{kind} is done on the simulated runtime, which runs components together: leave out split")
        option = HOST_OPTIONS.get(host_kind)
        amount = 0
        for name, word in line.take_options([option] if option else []).values.items():
            sign, digits = (-1, word.text[1:]) if word.text.startswith("-") else (1, word.text)
            amount = sign * line.number(Word(digits, word.column), name, least=0)
        return line.checked(lambda: HostFault(host_kind, members, amount))

    def _read_file_fault(self, line: Statement, kind: str) -> FileFault:
        members = self._take_members(line)
        parts = [part.value for part in Part]
        part = Part(line.take_one_of("part of the log", parts)) if kind == FileFaultKind.DAMAGE else None
        return line.checked(lambda: FileFault(FileFaultKind(kind), members, part))

    def _take_ends(self, line: Statement) -> tuple[Who, Who, bool]:
        sources = self._take_members(line)
        arrow = line.take_one_of("direction", (ONE_WAY, BOTH_WAYS))
        return sources, self._take_members(line), arrow == BOTH_WAYS

    def _read_datagram_fault(self, line: Statement, kind: str) -> DatagramFault:
        ends, is_omission = self._take_ends(line), kind == DatagramFaultKind.OMIT
        options = line.take_options(("percent", "jitter-ms", "stream", "channel", "frames", "message"))
        return line.checked(
            lambda: DatagramFault(
                DatagramFaultKind(kind),
                *ends,
                options.number("percent", _OMITS_USUALLY if is_omission else 0),
                options.number("jitter-ms"),
                options.text("channel", CONSENSUS if is_omission else ""),
                options.text("frames"),
                options.number("stream"),
                options.text("message"),
            )
        )

    def _read_link_fault(self, line: Statement, kind: str) -> LinkFault:
        ends = self._take_ends(line)
        names = ("latency-ms", "bytes-per-second", "timeout-ms", "channel", "dialled-by", "by")
        options = line.take_options(names)
        latency_ms, rate, timeout_ms = (options.number(name) for name in names[:3])
        dialler = options.one_of("dialled-by", [dialler for dialler in Dialler if dialler], Dialler.ANY)
        means = options.one_of("by", list(Means), Means.PROXY)
        return line.checked(
            lambda: LinkFault(
                LinkFaultKind(kind),
                *ends,
                latency_ms,
                rate,
                timeout_ms,
                options.text("channel"),
                Means(means),
                Dialler(dialler),
            )
        )

    def _require_one_means(self, line: Statement, means: Means) -> None:
        """Reject a second means: members whose links have proxies do not send each other packets."""
        if self._means not in (None, means):
            line.fail(f"the links of one cluster are broken by {self._means} or by {means}, not by both")
        self._means = means

    def _read_heal(self, line: Statement) -> None:
        name = self._take_fault(line, self._active)
        self._active.discard(name)
        self._steps.append(Heal(name) if line.first == "heal" else End(name))

    def _read_command(self, line: Statement) -> None:
        command = line.first
        if command != AdminCommand.START:
            self._require_members(line, command)
        self._ended_by = command if command in ENDINGS else ""
        self._steps.append(GiveCommand(command))

    def _require_members(self, line: Statement, command: str) -> None:
        if self._ended_by:
            line.fail(f"no member takes {command} after {self._ended_by}: write `start` before it")

    def _read_ask(self, line: Statement) -> None:
        command = AdminCommand(line.take_one_of("command", _ASKED))
        self._require_members(line, command)
        if command in ENDINGS:
            self._ended_by = command
        self._steps.append(AskFor(command))

    def _read_witnesses(self, line: Statement) -> None:
        self._witnesses = line.take_one_of("choice", ("on", "off")) == "on"

    def _read_invariants(self, line: Statement) -> None:
        self._has_invariants = line.take_one_of("choice", ("on", "off")) == "on"

    def _read_backup(self, line: Statement) -> None:
        action = line.take_one_of("action", companion_control.ACTIONS)
        is_start = action == companion_control.START
        if is_start is self._backup_runs:
            line.fail("the backup is already running" if is_start else f"no backup is running: cannot {action} it")
        source = line.take_options(("source",) if is_start else ()).one_of("source", SOURCES, SOURCES[0])
        self._backup_runs = is_start
        self._steps.append(KeepCompanion(action, source))

    def _take_members(self, line: Statement) -> Who:
        return self._who(line, line.take_word("target"))

    def _who(self, line: Statement, word: Word) -> Who:
        parts = tuple(self._members(line, part) for part in word.split(","))
        return parts[0] if len(parts) == 1 else Group(parts)

    def _members(self, line: Statement, word: Word) -> Members:
        name, sign, fault = word.text.partition(OTHER_THAN)
        if sign:
            self._require_fault(line, Word(fault, word.column), self._known)
            if name not in _SPARING:
                line.fail(f"{word.text}: use one of {', '.join(_SPARING)} before {sign}", word)
        if name in list(Selector):
            return Members(Selector(name), other_than=fault)
        return Members(member_id=line.member(Word(name, word.column), self._cluster.members, list(Selector)))

    def _take_fault(self, line: Statement, names: set[str]) -> str:
        return self._require_fault(line, line.take_word("name of a fault"), names)

    @staticmethod
    def _require_fault(line: Statement, word: Word, names: set[str]) -> str:
        if word.text not in names:
            known = f"there is {', '.join(sorted(names))}" if names else "there is none here"
            line.fail(f"no fault is called {word.text!r}: {known}{did_you_mean(word.text, names)}", word)
        return word.text


def _require_two(source: Who, target: Who, roster: Roster) -> None:
    """Raises `UsageError` when no member is the source and another one the target."""
    sources, targets = possible_ends(source, target, roster)
    if len({*sources, *targets}) < 2:
        raise UsageError(f"from {source} to {target}: no member sends a message to itself")


def parse_scenario(text: str, *, name: str, where: str) -> Scenario:
    """Parse a scenario. Raises `UsageError` with `where`, line and column."""
    return _Reader(text, where).scenario(name)


def with_rules(scenario: Scenario, compatibility: str) -> Scenario:
    """The scenario on our node with those rules, in its text too, so that its run can be repeated."""
    if scenario.cluster.compatibility == compatibility:
        return scenario
    lines = scenario.text.splitlines()
    place = next((number for number, line in enumerate(lines) if line.split()[:1] == ["cluster"]), None)
    option = f"compatibility={compatibility}"
    if place is None:
        title = next(number for number, line in enumerate(lines) if line.split()[:1] == ["title"])
        lines.insert(title + 1, f"cluster {option}")
    else:
        statement, comment, rest = lines[place].partition("#")
        words = [word for word in statement.split() if not word.startswith("compatibility=")]
        lines[place] = " ".join([*words, option, *([comment + rest] if comment else [])])
    cluster = replace(scenario.cluster, compatibility=compatibility)
    return replace(scenario, text="\n".join([*lines, ""]), cluster=cluster)


def scenario_names() -> list[str]:
    """The scenarios that come with upheaval."""
    return sorted(path.stem for path in LIBRARY.glob(f"*{SUFFIX}"))


def load_scenario(name: str) -> Scenario:
    """A scenario of the library or of a known bug by its name, or any scenario by the path of its file."""
    path = Path(name) if name.endswith(SUFFIX) else LIBRARY / f"{name}{SUFFIX}"
    if not name.endswith(SUFFIX) and not path.is_file():
        path = OTHERS / path.name
    if not path.is_file():
        if "/" in name or name.endswith(SUFFIX):
            what = "a folder" if path.is_dir() else f"no such file{did_you_mean(path.stem, scenario_names())}"
            raise UsageError(f"unknown scenario {name!r}: {what}")
        known, hint = ", ".join(scenario_names()), did_you_mean(name, scenario_names())
        raise UsageError(f"unknown scenario {name!r}: use one of {known}, or the path of a {SUFFIX} file{hint}")
    text = read_library_text(path)
    return parse_scenario(text, name=path.stem, where=str(path))
