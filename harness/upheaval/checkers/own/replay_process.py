"""The process in which a user's service reads a log: `python -m upheaval.checkers.own.replay_process`.

It runs under the conditions of its order and does one of these tasks:

- `judge`: play the log to copies of the service and compare their effects, see `replay_judgement`; also take samples.
- `forms`: return the canonical forms of the given states.
- `samples`: return the states at some entries of the log.
- `egress`: return what copies send to sessions, as a follower and as a leader.
- `show`: return one entry, its result, and the state after it.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Any, Final

from upheaval.checkers.evidence.recordings import RecordedLog
from upheaval.checkers.own import replay_conditions
from upheaval.checkers.own.apart import apart
from upheaval.checkers.own.causes import Cause
from upheaval.checkers.own.cuts import shown
from upheaval.checkers.own.outside import Outside
from upheaval.checkers.own.own_process import answer_each
from upheaval.checkers.own.played import entry_text, leader_of_term, raised_text
from upheaval.checkers.own.replay_judgement import BUDGET_S, judge_replays
from upheaval.checkers.states.replay import ExpectedState, LoggedMessage, Member, Replay, state_hash
from upheaval.records import Payloads, RunFolder, answer_text
from upheaval_node.service.api import ClusterRole

MODULE: Final = "upheaval.checkers.own.replay_process"
_SHOWN_MAX: Final = 1_000
_OTHER_MEMBER: Final = 7


class Task(StrEnum):
    """The task of the process, see above."""

    JUDGE = "judge"
    FORMS = "forms"
    SAMPLES = "samples"
    SHOW = "show"
    EGRESS = "egress"


@dataclass(frozen=True, slots=True)
class Order:
    """What to replay: the log of `member` up to `end`, by `service` in the folder `source`, with the conditions in
    `changed`.

    `low` and `high` are entry indices. Samples are taken after `count` entries between them, evenly spaced, the last
    one after `high`; `show` shows `high`. A negative `high` counts from the end of the log.
    """

    service: str
    source: str
    run: str
    member: int
    end: int
    changed: tuple[Cause, ...]
    task: str = Task.JUDGE
    hash_seed: str = ""
    """The hash seed of the process; empty for the usual or changed one."""
    low: int = -1
    high: int = -1
    count: int = 0
    has_other_services: bool = False
    untimed_ms: tuple[tuple[int, int], ...] = ()
    """When requests may have been late, because a fault stopped only a service of a member."""
    begin: int = -1
    """The position of the snapshot to start from, which another copy takes; -1 to read the whole log."""
    as_member: int = -1
    """The member whose id and role in each term the copy has; -1 for none."""
    compares_requests: bool = False
    """Sample what the copy has offered and scheduled so far, instead of its states."""
    sessions: tuple[int, ...] = ()
    """The sessions whose egress is returned."""
    has_form: bool = True
    """False to compare states as they are, without the service's canonical form."""
    budget_s: float = BUDGET_S
    """Seconds of processor time, after which no further snapshot is tried."""


def encode_state(state: Sequence[bytes]) -> list[str]:
    """Encode a state for JSON."""
    return [b64encode(message).decode() for message in state]


def decode_state(state: Sequence[str]) -> list[bytes]:
    """Decode a state of `encode_state`."""
    return [b64decode(message) for message in state]


def _judge(order: Order, log: Sequence[LoggedMessage]) -> dict[str, object]:
    judgement = judge_replays(
        order.service,
        log,
        has_other_services=order.has_other_services,
        untimed_ms=order.untimed_ms,
        payloads=Payloads.of(RunFolder(order.run)),
        budget_s=order.budget_s,
    )
    as_judged = replace(order, has_form=judgement.has_form)
    return asdict(judgement) | apart(lambda: _samples(as_judged, log))


def _forms(service: str, states: Sequence[Sequence[bytes]]) -> dict[str, object]:
    replay = Replay(service, is_own=True)
    return {"forms": {state_hash(state): _form(replay, state) for state in states}}


def _form(replay: Replay, state: Sequence[bytes]) -> str:
    """The hash of the canonical form."""
    return state_hash(replay.form(state))


def _samples(order: Order, log: Sequence[LoggedMessage]) -> dict[str, object]:
    high = _last_index(order, log)
    step = max(-(-(high - order.low) // order.count), 1)
    wanted = {*range(high, order.low, -step)}
    replay, first = _begun(order, log)
    taken, positions = {}, {}
    requests = sha256()
    for index, message in enumerate(log[first : high + 1], first):
        effects = replay.follow(message)
        requests.update(repr((effects.offers, effects.timers)).encode())
        if index in wanted:
            taken[index] = requests.hexdigest() if order.compares_requests else _state_sample(order, replay)
            positions[index] = message.position
    return {"samples": taken, "positions": positions, "first": first}


def _last_index(order: Order, log: Sequence[LoggedMessage]) -> int:
    return order.high if order.high >= 0 else len(log) + order.high


def _state_sample(order: Order, replay: Replay) -> str:
    state = replay.state().messages
    return _form(replay, state) if order.has_form else state_hash(state)


def _show(order: Order, log: Sequence[LoggedMessage]) -> dict[str, object]:
    payloads = Payloads.of(RunFolder(order.run))
    replay, first = _begun(order, log)
    high = _last_index(order, log)
    for message in log[first:high]:
        replay.apply(message)
    last = log[high]
    heard, error = replay.watch(last)
    state = replay.state().messages
    state = replay.form(state) if order.has_form else state
    result = _shown(heard, payloads) if error is None else raised_text(error)
    return {
        "entry": entry_text(last, payloads),
        "result": result,
        "position": last.position,
        "state": encode_state(state),
    }


def _egress(order: Order, log: Sequence[LoggedMessage]) -> dict[str, object]:
    def sent(role: ClusterRole) -> dict[int, list[tuple[str, int]]]:
        replay = Replay(order.service, is_own=True, hears=True, member=Member(role=role))
        by_session: dict[int, list[tuple[str, int]]] = {session: [] for session in order.sessions}
        for message in log:
            for session, content in replay.follow(message).egress:
                if session in by_session:
                    by_session[session].append((answer_text(content), message.position))
        return by_session

    def unsettled() -> dict[int, list[tuple[str, int]]]:
        holes = replay_conditions.unsettle()
        by_session = sent(ClusterRole.FOLLOWER)
        del holes
        return by_session

    egress = apart(lambda: sent(ClusterRole.FOLLOWER))
    return {
        "egress": egress,
        "as_leader": apart(lambda: sent(ClusterRole.LEADER)),
        "is_steady": apart(unsettled) == egress,
        "terms": [(message.position, leader) for message in log for leader in leader_of_term(message)],
    }


def _begun(order: Order, log: Sequence[LoggedMessage]) -> tuple[Replay, int]:
    """The copy, and the index of the first entry that it reads."""
    changed = order.changed
    if Cause.INSTANCES in changed:
        _read_by_another(order.service, log)
    if order.as_member >= 0:
        member = Member(order.as_member, follows_terms=True)
    else:
        role = ClusterRole.LEADER if Cause.ROLE in changed else ClusterRole.FOLLOWER
        member = Member(_OTHER_MEMBER if Cause.ROLE in changed else -1, role, Cause.BACKGROUND in changed)
    first = sum(message.position <= order.begin for message in log)
    state = apart(lambda: _state_before(order, log[:first])) if first else None
    return Replay(order.service, state, is_own=True, hears=True, member=member), first


def _state_before(order: Order, log: Sequence[LoggedMessage]) -> ExpectedState:
    replay = Replay(order.service, is_own=True)
    for message in log:
        replay.apply(message)
    return replay.state()


def _read_by_another(service: str, log: Sequence[LoggedMessage]) -> None:
    """Let another copy read the log first, so that its changes to modules and classes are there for the next copy."""
    replay = Replay(service, is_own=True)
    for message in log:
        if replay.apply(message):
            replay.state()


def _shown(answer: Sequence[bytes], payloads: Payloads) -> str:
    return " ".join(shown(message, payloads) for message in answer)[:_SHOWN_MAX] if answer else "nothing"


def read_log(run: str, member: int, end: int) -> list[LoggedMessage]:
    """The log of a member up to `end`."""
    log = RecordedLog(RunFolder(run).member(member))
    return [LoggedMessage(*message, log.term_length) for message in log.messages() if message[0] <= end]


_TASKS: Final[Mapping[str, Callable[[Order, Sequence[LoggedMessage]], dict[str, object]]]] = {
    Task.JUDGE: _judge,
    Task.SAMPLES: _samples,
    Task.SHOW: _show,
    Task.EGRESS: _egress,
}


def _answer(fields: dict[str, Any]) -> dict[str, object]:
    states = [decode_state(state) for state in fields.pop("states")]
    changed = tuple(Cause(field) for field in fields["changed"])
    untimed_ms = tuple((begin_ms, end_ms) for begin_ms, end_ms in fields["untimed_ms"])
    order = Order(**{**fields, "changed": changed, "untimed_ms": untimed_ms})
    log = [] if order.task == Task.FORMS else read_log(order.run, order.member, order.end)
    holes = replay_conditions.enter(order.changed)
    outside = Outside(order.source)
    outside.listen()
    answer = _forms(order.service, states) if order.task == Task.FORMS else _TASKS[order.task](order, log)
    del holes
    return {**answer, "asked": list(outside.asked)}


if __name__ == "__main__":
    answer_each(_answer)
