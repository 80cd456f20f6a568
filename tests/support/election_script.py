"""Elections of one member as text: what the other members say, how time passes, what its module can and cannot do yet.

One statement a line, `#` begins a comment:

    member term=0 at=1024            the member under test (id 2 of 3) and its log; see `ElectionScript._member`
    0 canvasses term=0 at=1024       a message of member 0; so `asks for=1`, `votes yes for=1`, `leads term=1`,
                                     `appended term=1 at=1024`, `committed term=1 at=1024`
    wait 500                         milliseconds, in turns of 10
    hold join                        this operation answers "not yet" until `let join`; `let replay to=512`
    fail join                        its next call raises; `fail tick` is as any other failure
    unreachable 0                    what is sent to member 0 cannot be handed over; `reachable 0`
    is CANVASS                       the state now
    sent Vote to=0 vote=yes          sent since the last `sent` or `unsent` of this message; `unsent Vote`
    reads term=0 base=0 at=96        a replay or catch-up comes to the first entry of a term
    error no log image               part of the last error that sent the election back to INIT

Operations are prepare, truncate, replay, replicate, join, append and catchup. A leader's quorum, terms and files are
the node's own.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from support.lone_member import Around
from support.memory_storage import MemoryStorage
from upheaval_node.cluster.election import Election
from upheaval_node.cluster.election_states import ElectionState
from upheaval_node.cluster.log_access import LogTransfer, Progress
from upheaval_node.cluster.rules import OWN
from upheaval_node.errors import NodeError, PeerError
from upheaval_node.files.node_state import NodeState
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message
from upheaval_node.settings import profile_settings
from upheaval_node.types import MS, NULL_VALUE, Now

SELF: Final = 2
TURN_NS: Final = 10 * MS
SETTINGS: Final = profile_settings("aeron").cluster
Values = dict[str, int]


class _Operations:
    """Which operations are held up or fail, by name."""

    def __init__(self) -> None:
        self.held: set[str] = set()
        self.failing: set[str] = set()

    def is_done(self, name: str) -> bool:
        if name in self.failing:
            self.failing.discard(name)
            raise PeerError(f"{name} failed")
        return name not in self.held


class _LogWork:
    """A replay or a replication: comes to its stop position when it is let, or to where the script says."""

    def __init__(
        self, operations: _Operations, name: str, start: int, stop: int, on_work: Callable[[], None] | None = None
    ) -> None:
        self._on_work = on_work
        self._operations = operations
        self._name = name
        self._stop = stop
        self.position = start
        self.is_done = False

    def do_work(self, now: Now) -> int:
        is_done = self._operations.is_done(self._name)
        if self._on_work is not None:
            self._on_work()
        if is_done:
            self.position = max(self.position, self._stop)
            self.is_done = True
        return 1

    def end_at(self, position: int) -> None:
        self.position = self._stop = position

    def close(self) -> None:
        """Nothing is open."""


class ScriptedLog:
    """A log whose streams, archive and services do what the script says. Implements `LogAccess`."""

    def __init__(self, commit_position: int, recorded: int, recording_id: int) -> None:
        self.commit_position = commit_position
        self.recording_id = recording_id
        self.recorded = recorded
        self.operations = _Operations()
        self.work: list[_LogWork] = []
        self.joined: list[tuple[str, bool]] = []
        self.leadership_term_id = 0
        self.appended_terms: list[int] = []

    def leave_term(self, now: Now, log_position: int) -> int | None:
        return self.recorded if self.operations.is_done("prepare") else None

    def truncate(self, now: Now, position: int) -> bool:
        if self.operations.is_done("truncate"):
            self.recorded = position
            return True
        return False

    def replay(self, start_position: int, stop_position: int) -> LogTransfer:
        self.work.append(_LogWork(self.operations, "replay", start_position, stop_position))
        return self.work[-1]

    def replicate(
        self, now: Now, leader_member_id: int, leader_recording_id: int, start_position: int, stop_position: int
    ) -> LogTransfer:
        self.work.append(_LogWork(self.operations, "replicate", start_position, stop_position, self._on_replicated))
        return self.work[-1]

    def _on_replicated(self) -> None:
        self.recording_id = 0

    def publish(self, position: int) -> int:
        return 7

    def join_as_leader(self, now: Now, leadership_term_id: int, log_position: int, *, is_startup: bool) -> bool:
        if not self.operations.is_done("join"):
            return False
        self.leadership_term_id = leadership_term_id
        self.recording_id = 0
        self.joined.append(("leader", is_startup))
        return True

    def commit(self, now: Now, leadership_term_id: int, append_position: int, quorum_position: int) -> int:
        self.commit_position = max(self.commit_position, quorum_position)
        return 0

    def append_term_event(self, now: Now, leadership_term_id: int, log_position: int) -> bool:
        if self.operations.is_done("append"):
            self.appended_terms.append(leadership_term_id)
            return True
        return False

    def follow(self, log_session_id: int, log_position: int, *, catching_up: bool) -> str | None:
        return "m2:4"

    def join_as_follower(self, now: Now, log_position: int, name_term: Callable[[], None], *, is_startup: bool) -> bool:
        if not self.operations.is_done("join"):
            return False
        self.recording_id = 0
        name_term()
        self.joined.append(("follower", is_startup))
        return True

    def catch_up(self, now: Now, limit_position: int, join_position: int) -> Progress:
        is_done = self.operations.is_done("catchup")
        if is_done:
            self.commit_position = self.recorded = limit_position
        return Progress(1, is_done and limit_position >= join_position)


class ScriptedMember(Around):
    """Keeps when messages were sent; some members cannot be reached."""

    def __init__(self, storage: MemoryStorage, members: int, appointed_leader_id: int, compatibility: str) -> None:
        settings = replace(SETTINGS, appointed_leader_id=appointed_leader_id, compatibility=compatibility)
        super().__init__(storage, members_text(members), min(SELF, members - 1), settings)
        self.unreachable: set[int] = set()
        self.sent_at: list[int] = []

    def send(self, now: Now, member_id: int, message: Message) -> bool:
        if member_id in self.unreachable:
            return False
        self.sent_at.append(now.ns)
        return super().send(now, member_id, message)


def members_text(count: int) -> str:
    return "|".join(f"{i},m{i}:1,m{i}:2,m{i}:3,m{i}:4,m{i}:5" for i in range(count))


class ElectionScript:
    """Runs a text. `moves` are the states that were entered, in order."""

    around: ScriptedMember
    log: ScriptedLog
    election: Election

    def __init__(self, text: str = "", compatibility: str = OWN) -> None:
        self._compatibility = compatibility
        self.ns = 1_000_000 * MS
        self.last_error = ""
        self._seen: dict[str, int] = {}
        self.say(text)

    @property
    def now(self) -> Now:
        return Now(self.ns, self.ns // MS)

    @property
    def state(self) -> ElectionState:
        return self.election.state

    @property
    def terms(self) -> list[tuple[int, int, int]]:
        """The valid terms of the recording log: id, base and end."""
        return [
            (e.leadership_term_id, e.term_base_log_position, e.log_position)
            for e in self.around.recording_log.entries
            if e.is_valid
        ]

    def sent(self, name: str) -> list[tuple[int, Message]]:
        """All messages of this name, with their receivers."""
        return [(to, message) for to, message in self.around.sent if type(message).__name__ == name]

    def intervals_ms(self, name: str, to: int) -> list[int]:
        """The times between all messages of this name to one member."""
        times = [
            time
            for time, (receiver, message) in zip(self.around.sent_at, self.around.sent, strict=True)
            if receiver == to and type(message).__name__ == name
        ]
        return [(later - earlier) // MS for earlier, later in pairwise(times)]

    def say(self, text: str) -> None:
        """Run more of the text."""
        for line in text.splitlines():
            statement = line.partition("#")[0].split()
            if statement:
                self._run(statement, line.strip())

    # --- statements ---

    def _run(self, statement: list[str], line: str) -> None:
        verb, words = statement[0], statement[1:]
        plain = [word for word in words if "=" not in word]
        values = {key: _number(value) for key, _, value in (word.partition("=") for word in words if "=" in word)}
        match verb:
            case "member":
                self._member(values)
            case "wait":
                self.wait(int(plain[0]))
            case "hold":
                self.log.operations.held.update(plain)
            case "let":
                self.log.operations.held.difference_update(plain)
                if "to" in values:
                    self.log.work[-1].end_at(values["to"])
            case "fail":
                self._fail(plain[0])
            case "unreachable":
                self.around.unreachable.update(map(int, plain))
            case "reachable":
                self.around.unreachable.difference_update(map(int, plain))
            case "is":
                assert self.state.name == plain[0], f"{line}: {self.state.name}, last error: {self.last_error}"
            case "sent" | "unsent":
                self._check_sent(plain[0], values, line, wanted=verb == "sent")
            case "error":
                assert " ".join(words) in self.last_error, (line, self.last_error)
            case "reads":
                event = cm.NewLeadershipTermEvent(values["term"], values["at"], 0, values["base"])
                self.election.on_replay_new_leadership_term_event(self.now, event)
            case _ if verb.isdigit():
                self._say(int(verb), plain, values, line)
            case _:
                raise AssertionError(f"no such statement: {line}")

    def _member(self, values: Values) -> None:
        """`term` and `at` of the log (-1 and 0), `consumed` of it, `persisted` candidate term, `members`, `appointed`
        and `gracefully-closed` member; `startup=yes` when the node has just started, `terms=no` when it starts from a
        snapshot alone."""
        storage = MemoryStorage()
        term, at, members = values.get("term", -1), values.get("at", 0), values.get("members", 3)
        consumed = values.get("consumed", at)
        NodeState(storage).propose_max_candidate_term_id(values.get("persisted", term), at, 0)
        self.around = ScriptedMember(storage, members, values.get("appointed", NULL_VALUE), self._compatibility)
        self.log = ScriptedLog(consumed, at, 0 if term >= 0 else NULL_VALUE)
        self.around.leader.heard(self.now)
        for known in range(term + 1 if values.get("terms", 1) else 0):
            self.around.recording_log.append_term(0, known, 0 if known == 0 else values.get("base", at), 0)
        self.election = Election(
            self.around.context,
            self.log,
            is_node_startup=bool(values.get("startup", 0)),
            absent_leader_id=values.get("gracefully-closed", NULL_VALUE),
            leadership_term_id=term,
            term_base_log_position=values.get("base", 0),
            log_position=consumed,
            append_position=at,
            now=self.now,
        )

    def wait(self, ms: int) -> None:
        """One turn at once, and one every 10 ms."""
        self.turn()
        for _ in range(0, ms, 10):
            self.ns += TURN_NS
            self.turn()

    def turn(self) -> None:
        """What a consensus module does with its election in one duty cycle."""
        self._guard(lambda: self.election.do_work(self.now))

    def _guard(self, act: Callable[[], object]) -> None:
        try:
            act()
        except NodeError as error:
            self.last_error = str(error)
            self.election.handle_error(self.now, error)

    def _fail(self, operation: str) -> None:
        if operation == "tick":
            self.last_error = "archive time-out"
            self.election.handle_error(self.now, PeerError(self.last_error))
        else:
            self.log.operations.failing.add(operation)

    def _check_sent(self, name: str, values: Values, line: str, *, wanted: bool) -> None:
        every = self.sent(name)
        new = every[self._seen.get(name, 0) :]
        self._seen[name] = len(every)
        to = values.pop("to", None)
        fields = {key.replace("-", "_"): value for key, value in values.items()}
        found = [
            message
            for receiver, message in new
            if to in (None, receiver) and all(getattr(message, field) == value for field, value in fields.items())
        ]
        assert bool(found) is wanted, f"{line}: {new}"

    def _say(self, member_id: int, plain: list[str], values: Values, line: str) -> None:
        term, at = values.get("term", 0), values.get("at", 0)
        election, now = self.election, self.now
        match plain[0]:
            case "canvasses":
                canvass = cm.CanvassPosition(term, at, term, member_id, 1 << 16)
                self._guard(lambda: election.on_canvass_position(now, canvass))
            case "asks":
                request = cm.RequestVote(term, at, values["for"], member_id, 1 << 16)
                self._guard(lambda: election.on_request_vote(now, request))
            case "votes":
                vote = cm.Vote(values["for"], term, at, values.get("of", SELF), member_id, plain[1] == "yes")
                self._guard(lambda: election.on_vote(now, vote))
            case "leads":
                announcement = _announcement(member_id, values)
                self._guard(lambda: election.on_new_leadership_term(now, announcement))
            case "appended":
                append = cm.AppendPosition(term, at, member_id, 0)
                self._guard(lambda: election.on_append_position(now, append))
            case "committed":
                commit = cm.CommitPosition(term, at, member_id)
                self._guard(lambda: election.on_commit_position(now, commit))
            case _:
                raise AssertionError(f"no such statement: {line}")


def _announcement(leader_id: int, values: Values) -> cm.NewLeadershipTerm:
    """`term` with its `base`; the leader's log is `at`; `log-term` and what follows it: `next`, `next-base`, `end`."""
    term = values["term"]
    base = values.get("base", values.get("at", 0))
    return cm.NewLeadershipTerm(
        log_leadership_term_id=values.get("log-term", term - 1),
        next_leadership_term_id=values.get("next", term),
        next_term_base_log_position=values.get("next-base", base),
        next_log_position=values.get("end", -1),
        leadership_term_id=term,
        term_base_log_position=base,
        log_position=values.get("at", base),
        leader_recording_id=0,
        timestamp=0,
        leader_member_id=leader_id,
        log_session_id=7,
        app_version=1,
        is_startup=bool(values.get("startup", 0)),
        commit_position=values.get("commit", base),
    )


def _number(text: str) -> int:
    return {"yes": 1, "no": 0}[text] if text in ("yes", "no") else int(text)
