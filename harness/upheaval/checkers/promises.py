"""The promises that a run is judged by: the id of each, and its sentence for a reader (docs/guarantees.md)."""

from enum import StrEnum
from typing import Final


class Promise(StrEnum):
    """What a verdict is about. Its value is its id; two promises are compared by that and never by their words."""

    sentence: str
    """What is promised, as tables show it."""

    def __new__(cls, identifier: str, sentence: str = "") -> "Promise":
        """A member of the enum: its id, and its sentence."""
        promise = str.__new__(cls, identifier)
        promise._value_ = identifier
        promise.sentence = sentence
        return promise

    RUN_CONVERGED = "run-converged", "the run converged"
    ENOUGH_TRAFFIC = "enough-traffic", "enough traffic to judge by"
    FAULTS_PROVED = "faults-proved", "every fault took effect and was healed"
    FAULTS_IN_TIME = "faults-in-time", "every fault was there when its record has it"
    ADMIN_COMMANDS_PROVED = "admin-commands-proved", "every admin command took effect"
    ENDS_AT_ONE_POSITION = "ends-at-one-position", "a cluster that was ended ends at one position"
    ONE_LEADER_A_TERM = "one-leader-a-term", "one leader a term"
    VOTES_KEPT = "votes-kept", "members vote once a term and lead by a quorum's votes"
    COMMITS_KEPT = "commits-kept", "what is committed lies on a quorum and stays so"
    FINAL_POSITIONS = "final-positions", "traces and recordings confirm the final positions"
    LOGS_COMPLETE = "logs-complete", "every log reaches its final position"
    LOGS_EQUAL = "logs-equal", "logs are equal up to the commit position"
    ACKNOWLEDGED_NOT_LOST = "acknowledged-not-lost", "acknowledged operations are not lost"
    ANSWERED_WHEN_COMMITTED = "answered-when-committed", "answers come after their commit, of the leader of their term"
    APPLIED_ONCE = "applied-once", "no operation is applied twice"
    LINEARIZABLE = "linearizable", "linearizable"
    HISTORY_COMPLETE = "history-complete", "the history explains the log"
    SESSIONS_KEPT = "sessions-kept", "sessions open and close once and say nothing after"
    ENTRIES_IN_TERM = "entries-in-term", "each entry of the log is of the term in which it lies"
    ENTRIES_KNOWN = "entries-known", "each entry of the log is of a kind that a cluster appends"
    SUSPENDED_TAKES_NOTHING = "suspended-takes-nothing", "a suspended cluster appends nothing of clients and services"
    CLIENTS_IN_ORDER = "clients-in-order", "each client's operations are in its session and in its order"
    ANSWERS_IN_ORDER = "answers-in-order", "answers of a session come in the order of its entries"
    ANSWERED_ONCE = "answered-once", "an operation is answered once, in its session"
    CLIENTS_IN_TIME = "clients-in-time", "answers come in time, and sessions end when their clients are gone"
    SESSIONS_OUTLIVE_LEADERS = (
        "sessions-outlive-leaders",
        "sessions live on under a new leader, which tells their clients",
    )
    SERVICE_MESSAGES_ONCE = "service-messages-once", "each message of a service is in the log once"
    TIMERS_KEPT = "timers-kept", "timers fire once, in time, and not after a cancel"
    TIME_KEPT = "time-kept", "the log's time is that of its leaders' clocks"
    BOUNDS_KEPT = "bounds-kept", "leaders let themselves be heard, and are given up, in time"
    LEADER_FOUND = "leader-found", "a quorum that is well finds a leader in time"
    MEMBERS_JOIN = "members-join", "a member that is well joins a leader that is well"
    PROGRESS = "progress", "clients are answered while a leader and a quorum with it are well"
    MONEY_CONSERVED = "money-conserved", "money is conserved"
    STATES_AGREE = "states-agree", "members' states agree at equal positions"
    SNAPSHOT_IS_REPLAY = "snapshot-is-replay", "a snapshot equals the replay of the log"
    SNAPSHOTS_TAKEN = "snapshots-taken", "every member that runs takes an ordered snapshot, and of every service"
    STANDBYS_KNOWN = "standbys-known", "members know the snapshots of standbys as they are"
    SERVICES_RAISED_NOTHING = "services-raised-nothing", "services raised nothing"
    EVIDENCE_COMPLETE = "evidence-complete", "the run left all its evidence"
    NO_UNEXPLAINED_END = "no-unexplained-end", "no process ended and no error was reported that no fault explains"
    EVIDENCE_BOUND = "evidence-bound", "the files of the run belong together"
    EVIDENCE_SEALED = "evidence-sealed", "nothing was changed after the run was collected"
    BACKED_UP = "backed-up", "nothing acknowledged before the backup's position is missing"
    ONLY_CREDENTIALS = "only-credentials", "only those with credentials were served"
    ONLY_AUTHORITY = "only-authority", "only holders of the authority's certificates had connections"
    RUN_ENDED = "run-ended", "the run came to its end"
    AS_EXPECTED = "as-expected", "the members sent the expected messages"
    TASKS_PASSED = "tasks-passed", "no task of a user raised"
    TEST_PASSED = "test-passed", "the test that made the run passed"
    INVARIANTS = "invariants", "invariants of the simulation"
    AS_DRAWN = "as-drawn", "the cluster was what its seed drew"
    FOLDER_JUDGED = "folder-judged", "the seed's run folder can be judged"


class OwnPromise(str):
    """A promise of a user's own, `own/` and its sentence."""

    __slots__ = ()

    @classmethod
    def of(cls, sentence: str) -> "OwnPromise":
        """The promise with that sentence."""
        return cls(_OWN + sentence)

    @property
    def sentence(self) -> str:
        """As tables show it."""
        return self.removeprefix(_OWN)


_OWN: Final = "own/"
AnyPromise = Promise | OwnPromise


def promise_of(identifier: str) -> AnyPromise:
    """The promise with that id. Raises `ValueError` for one that is neither known nor a user's own."""
    return OwnPromise(identifier) if identifier.startswith(_OWN) else Promise(identifier)


def promise_named(text: str) -> Promise | None:
    """The promise with that id or that sentence."""
    return next((promise for promise in Promise if text in (promise, promise.sentence)), None)
