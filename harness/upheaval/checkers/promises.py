"""The promises that a run is judged by: the id of each, and its sentence for readers (docs/promises.md)."""

from enum import StrEnum
from typing import Final


class Promise(StrEnum):
    """The subject of a verdict. Its value is its id; promises are compared by id, never by their wording."""

    sentence: str
    """The promise in words, as tables show it."""

    def __new__(cls, identifier: str, sentence: str = "") -> "Promise":
        """Make an enum member from its id and its sentence."""
        promise = str.__new__(cls, identifier)
        promise._value_ = identifier
        promise.sentence = sentence
        return promise

    RUN_CONVERGED = "run-converged", "the run converged"
    ENOUGH_TRAFFIC = "enough-traffic", "there was enough traffic to judge"
    FAULTS_PROVED = "faults-proved", "every fault took effect and was healed"
    FAULTS_IN_TIME = "faults-in-time", "every fault was active when its record says"
    ADMIN_COMMANDS_PROVED = "admin-commands-proved", "every admin command took effect"
    ENDS_AT_ONE_POSITION = "ends-at-one-position", "all members of a terminated cluster end at one position"
    ONE_LEADER_A_TERM = "one-leader-a-term", "at most one leader per term"
    VOTES_KEPT = "votes-kept", "members vote once per term, and leaders have a quorum of votes"
    COMMITS_KEPT = "commits-kept", "committed entries are on a quorum and are never rolled back"
    FINAL_POSITIONS = "final-positions", "traces and recordings confirm the final positions"
    LOGS_COMPLETE = "logs-complete", "every log reaches its final position"
    LOGS_EQUAL = "logs-equal", "logs are equal up to the commit position"
    ACKNOWLEDGED_NOT_LOST = "acknowledged-not-lost", "acknowledged operations are not lost"
    ANSWERED_WHEN_COMMITTED = "answered-when-committed", "the leader of the term answers, and only after the commit"
    APPLIED_ONCE = "applied-once", "no operation is applied twice"
    LINEARIZABLE = "linearizable", "linearizable"
    HISTORY_COMPLETE = "history-complete", "every client entry in the log is in the history"
    SESSIONS_KEPT = "sessions-kept", "sessions open once, close once and send nothing afterwards"
    ENTRIES_IN_TERM = "entries-in-term", "each log entry belongs to the term at its position"
    ENTRIES_KNOWN = "entries-known", "the log has only entries that a cluster appends"
    SUSPENDED_TAKES_NOTHING = "suspended-takes-nothing", "a suspended cluster appends no client or service messages"
    CLIENTS_IN_ORDER = "clients-in-order", "each client's operations are in its session and in order"
    ANSWERS_IN_ORDER = "answers-in-order", "answers of a session arrive in log order"
    ANSWERED_ONCE = "answered-once", "each operation is answered once, in its session"
    CLIENTS_IN_TIME = "clients-in-time", "answers arrive in time, and sessions of silent clients time out"
    SESSIONS_OUTLIVE_LEADERS = (
        "sessions-outlive-leaders",
        "sessions survive a change of leader, and their clients are notified",
    )
    SERVICE_MESSAGES_ONCE = "service-messages-once", "each service message is in the log once"
    TIMERS_KEPT = "timers-kept", "timers fire once, on time, and never after a cancel"
    TIME_KEPT = "time-kept", "log timestamps follow the leaders' clocks"
    BOUNDS_KEPT = "bounds-kept", "heartbeats and failure detection meet their deadlines"
    LEADER_FOUND = "leader-found", "a healthy quorum elects a leader in time"
    MEMBERS_JOIN = "members-join", "a healthy follower joins a healthy leader"
    PROGRESS = "progress", "clients are answered while a leader and its quorum are healthy"
    MONEY_CONSERVED = "money-conserved", "money is conserved"
    STATES_AGREE = "states-agree", "members' states agree at equal positions"
    SNAPSHOT_IS_REPLAY = "snapshot-is-replay", "a snapshot equals the replay of the log"
    SNAPSHOTS_TAKEN = "snapshots-taken", "every running member takes each ordered snapshot, of every service"
    STANDBYS_KNOWN = "standbys-known", "members record the snapshots of standbys correctly"
    SERVICES_RAISED_NOTHING = "services-raised-nothing", "services raised no errors"
    EVIDENCE_COMPLETE = "evidence-complete", "all evidence of the run is there"
    NO_UNEXPLAINED_END = "no-unexplained-end", "a fault explains every process end and every reported error"
    EVIDENCE_BOUND = "evidence-bound", "the files of the run belong together"
    EVIDENCE_SEALED = "evidence-sealed", "nothing changed after the run was collected"
    BACKED_UP = "backed-up", "the backup has every acknowledged operation up to its position"
    ONLY_CREDENTIALS = "only-credentials", "only clients with credentials were served"
    ONLY_AUTHORITY = "only-authority", "only holders of the authority's certificates connected"
    RUN_ENDED = "run-ended", "the run completed"
    AS_EXPECTED = "as-expected", "the members sent the expected messages"
    TASKS_PASSED = "tasks-passed", "no user task raised an error"
    TEST_PASSED = "test-passed", "the test that made the run passed"
    INVARIANTS = "invariants", "the invariants of the simulation hold"
    AS_DRAWN = "as-drawn", "the cluster matched what its seed drew"
    FOLDER_JUDGED = "folder-judged", "the seed's run folder can be judged"


class OwnPromise(str):
    """A promise that the user defined. Its id is `own/` and the sentence."""

    __slots__ = ()

    @classmethod
    def of(cls, sentence: str) -> "OwnPromise":
        """The user's promise with that sentence."""
        return cls(_OWN + sentence)

    @property
    def sentence(self) -> str:
        """The promise in words, as tables show it."""
        return self.removeprefix(_OWN)


_OWN: Final = "own/"
AnyPromise = Promise | OwnPromise


def promise_of(identifier: str) -> AnyPromise:
    """The promise with that id. Raises `ValueError` for an id that is neither known nor a user's own."""
    return OwnPromise(identifier) if identifier.startswith(_OWN) else Promise(identifier)


def promise_named(text: str) -> Promise | None:
    """The promise with that id or that sentence, or None."""
    return next((promise for promise in Promise if text in (promise, promise.sentence)), None)
