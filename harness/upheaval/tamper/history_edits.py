"""Edits of the history: what clients claim to have requested and received."""

from itertools import pairwise
from typing import Any, Final

from upheaval.checkers.promises import Promise
from upheaval.tamper.edit import edit
from upheaval.tamper.log_change import SESSION, change_logs, log_entries, place_of_operation, without
from upheaval.tamper.run_copy import FAULTS, HISTORY, Lacking, Line, RunCopy, first, need
from upheaval_node.types import S

_OTHER_SLOT: Final = 10**6
_UNWRITTEN: Final = 10**12
"""A value that no client wrote."""


def answered(lines: list[Line], *functions: str) -> Line:
    """An answered operation from the middle of the history. Raises `Lacking`."""
    done = [line for line in lines if line["outcome"] == "ok" and (not functions or line["f"] in functions)]
    need(done, f"no answered {' or '.join(functions) or 'operation'}")
    return done[len(done) // 2]


def unanswered(run: RunCopy, lines: list[Line]) -> Line:
    """An operation of unknown outcome that is in no log. Raises `Lacking`."""
    logged = log_entries(run)
    for line in lines:
        if line["outcome"] == "unknown" and line["id"] not in logged:
            return line
    raise Lacking("no unanswered operation that the log lacks")


def forget(line: Line) -> None:
    """Turn an operation into an unanswered one."""
    line.update(outcome="unknown", complete_ns=None, result=None, position=None)


# --- operations that are missing or duplicated ---


def an_acknowledged_read_is_in_no_log(run: RunCopy) -> None:
    """An acknowledged read, taken out of all logs."""
    line = answered(run.lines(HISTORY), "read", "list", "balances", "fired")
    change_logs(run, lambda entries: without(entries, place_of_operation(entries, line)))


def an_acknowledged_write_is_in_no_log(run: RunCopy) -> None:
    """An acknowledged write, taken out of all logs."""
    line = answered(run.lines(HISTORY), "write", "append", "transfer", "schedule")
    change_logs(run, lambda entries: without(entries, place_of_operation(entries, line)))


def an_acknowledged_operation_is_in_no_log_and_not_in_the_history(run: RunCopy) -> None:
    """An operation, taken out of all logs and the history."""
    line = answered(run.lines(HISTORY), "read", "list", "balances", "fired")
    change_logs(run, lambda entries: without(entries, place_of_operation(entries, line)))
    with run.changing(HISTORY) as lines:
        lines[:] = [other for other in lines if other["id"] != line["id"]]


def an_unanswered_operation_is_not_in_the_history(run: RunCopy) -> None:
    """The line of an operation that no log has."""
    with run.changing(HISTORY) as lines:
        lines.remove(unanswered(run, lines))


def an_operation_that_the_log_has_is_not_in_the_history(run: RunCopy) -> None:
    """The line of an answered operation."""
    with run.changing(HISTORY) as lines:
        lines.remove(answered(lines))


def the_last_third_of_the_history_is_gone(run: RunCopy) -> None:
    """The end of the history."""
    with run.changing(HISTORY) as lines:
        del lines[len(lines) * 2 // 3 :]


def an_operation_is_in_the_log_twice(run: RunCopy) -> None:
    """An entry that comes again in all logs."""
    line = answered(run.lines(HISTORY), "read", "write", "transfer", "schedule")

    def twice(entries: list[Any]) -> list[Any]:
        at = place_of_operation(entries, line)
        return [*entries[: at + 1], entries[at].copy(), *entries[at + 1 :]]

    change_logs(run, twice)


def an_operation_is_in_the_history_twice(run: RunCopy) -> None:
    """A line of the history that comes again."""
    with run.changing(HISTORY) as lines:
        lines.append(dict(answered(lines)))


def an_operation_that_was_never_sent_is_in_the_log(run: RunCopy) -> None:
    """An answered operation as never sent."""
    with run.changing(HISTORY) as lines:
        answered(lines).update(outcome="fail", result=None, position=None)


# --- answers ---


def two_reads_have_each_others_answers(run: RunCopy) -> None:
    """Two reads of one key with each other's answers."""
    with run.changing(HISTORY) as lines:
        one = answered(lines, "read", "balances", "fired")
        others = (line for line in lines if line["f"] == one["f"] and _differ(line, one))
        other = first(others, "no two reads with other answers")
        one["result"], other["result"] = other["result"], one["result"]


def _differ(line: Line, other: Line) -> bool:
    return bool(line["outcome"] == "ok" and line["key"] == other["key"] and line["result"] != other["result"])


def a_read_returns_an_older_value(run: RunCopy) -> None:
    """The last read of a key with an earlier value."""
    with run.changing(HISTORY) as lines:
        reads = [line for line in lines if line["outcome"] == "ok" and line["f"] == "read"]
        need(reads, "no reads")
        line = reads[-1]
        older = first((read for read in reads if _differ(read, line)), "no older value")
        line["result"] = older["result"]


def a_read_returns_an_unwritten_value(run: RunCopy) -> None:
    """A read of a value that no client wrote."""
    with run.changing(HISTORY) as lines:
        answered(lines, "read")["result"] = _UNWRITTEN


def a_compare_and_set_has_the_other_answer(run: RunCopy) -> None:
    """True for false."""
    with run.changing(HISTORY) as lines:
        line = answered(lines, "cas", "transfer", "cancel")
        line["result"] = not line["result"]


def a_list_lacks_an_element(run: RunCopy) -> None:
    """A list that was read without its last element."""
    with run.changing(HISTORY) as lines:
        lists = (line for line in reversed(lines) if line["f"] in ("list", "balances") and line["result"])
        line = first(lists, "no list that was read")
        line["result"] = line["result"][:-1]


def a_list_has_its_elements_in_another_order(run: RunCopy) -> None:
    """A list that was read backwards."""
    with run.changing(HISTORY) as lines:
        lists = (line for line in reversed(lines) if line["f"] == "list" and len(line["result"] or ()) > 1)
        line = first(lists, "no list of two elements")
        line["result"] = line["result"][::-1]


def a_write_had_another_value(run: RunCopy) -> None:
    """The value of a write, in the history alone."""
    with run.changing(HISTORY) as lines:
        answered(lines, "write", "append")["value"] = _UNWRITTEN


def an_operation_had_another_key(run: RunCopy) -> None:
    """The key of an operation, in the history alone."""
    with run.changing(HISTORY) as lines:
        line = answered(lines, "read", "write")
        line["key"] = next((other["key"] for other in lines if other["key"] not in ("", line["key"])), "other")


def an_answer_names_another_position(run: RunCopy) -> None:
    """The position of an answer."""
    with run.changing(HISTORY) as lines:
        answered(lines)["position"] += 32


def an_operation_that_no_log_has_was_answered(run: RunCopy) -> None:
    """An answer to an operation that had none and is in no log."""
    with run.changing(HISTORY) as lines:
        line = unanswered(run, lines)
        result = True if line["f"] in ("cas", "transfer", "cancel") else None
        before = max(earlier["position"] or 0 for earlier in lines if (earlier["complete_ns"] or 0) < line["invoke_ns"])
        line.update(outcome="ok", complete_ns=line["invoke_ns"] + S // 500, result=result, position=before)


# --- times ---


def an_answer_came_before_its_request(run: RunCopy) -> None:
    """An answer 1 ns before its request."""
    with run.changing(HISTORY) as lines:
        line = answered(lines)
        line["complete_ns"] = line["invoke_ns"] - 1


def an_answer_came_at_once(run: RunCopy) -> None:
    """The slowest answer 1 us after its request.

    Long before any leader had a quorum for it.
    """
    with run.changing(HISTORY) as lines:
        done = [line for line in lines if line["outcome"] == "ok" and line["f"] in ("read", "write", "transfer")]
        need(done, "no answered operation")
        line = max(done, key=lambda line: line["complete_ns"] - line["invoke_ns"])
        line["complete_ns"] = line["invoke_ns"] + 1000


def all_answers_came_at_once(run: RunCopy) -> None:
    """Each answer 1 us after its request."""
    with run.changing(HISTORY) as lines:
        for line in lines:
            if line["outcome"] == "ok":
                line["complete_ns"] = line["invoke_ns"] + 1000


def an_answer_came_without_a_leader(run: RunCopy) -> None:
    """An answer 0.5 s after the leader was killed, in a slot of its own."""
    kills = [fault for fault in run.lines(FAULTS) if fault["what"] == "kill"]
    need(kills, "no kill")
    killed_ns = kills[0]["inject_end_ns"]
    with run.changing(HISTORY) as lines:
        before = [line for line in lines if line["outcome"] == "ok" and line["complete_ns"] < killed_ns]
        after = [line["complete_ns"] for line in lines if line["outcome"] == "ok" and line["complete_ns"] > killed_ns]
        need(before and after and min(after) > killed_ns + S, "no kill that left clients without a leader")
        line = before[-1]
        line.update(complete_ns=killed_ns + S // 2, process=_OTHER_SLOT)
        lines.remove(line)
        later = (at for at, other in enumerate(lines) if (other["complete_ns"] or 0) > line["complete_ns"])
        lines.insert(next(later), line)


def an_answer_came_after_more_than_a_failover(run: RunCopy) -> None:
    """An answer 20 s late."""
    with run.changing(HISTORY) as lines:
        _last_of_its_slot(lines)["complete_ns"] += 20 * S


def answers_of_a_session_overtake_each_other(run: RunCopy) -> None:
    """Answers of a session in another order than its entries."""
    with run.changing(HISTORY) as lines:
        done = sorted((line for line in lines if line["outcome"] == "ok"), key=lambda line: line["position"] or 0)
        for one, other in pairwise(done):
            is_pair = one.get("session") == other.get("session") and one.get("session") is not None
            if is_pair and one["complete_ns"] < other["complete_ns"] and other["invoke_ns"] < one["complete_ns"] - 1:
                one["complete_ns"], other["complete_ns"] = other["complete_ns"], one["complete_ns"]
                return
    raise Lacking("no two operations of a session at the same time")


def operations_are_in_the_other_order_in_the_log(run: RunCopy) -> None:
    """Two reads one after the other, swapped in all logs."""
    done = sorted((line for line in run.lines(HISTORY) if line["outcome"] == "ok"), key=lambda line: line["position"])
    reads = ("read", "list", "echo", "balances", "fired")
    pairs = (pair for pair in pairwise(done) if all(line["f"] in reads for line in pair))
    apart = ((one, other) for one, other in pairs if one["complete_ns"] < other["invoke_ns"])
    one, other = first(apart, "no two reads one after the other")

    def swap(entries: list[Any]) -> list[Any]:
        first, second = place_of_operation(entries, one), place_of_operation(entries, other)
        entries[first], entries[second] = entries[second], entries[first]
        entries[first].message[24:32], entries[second].message[24:32] = (
            entries[second].message[24:32],
            entries[first].message[24:32],
        )
        return entries

    change_logs(run, swap)


def the_clock_of_the_clients_is_an_hour_ahead(run: RunCopy) -> None:
    """All times of the history, an hour later."""
    with run.changing(HISTORY) as lines:
        for line in lines:
            line["invoke_ns"] += 3600 * S
            line["complete_ns"] = None if line["complete_ns"] is None else line["complete_ns"] + 3600 * S


# --- sessions and slots ---


def a_slot_asks_before_it_is_answered(run: RunCopy) -> None:
    """A request before the answer to the one before it."""
    with run.changing(HISTORY) as lines:
        line = answered(lines)
        later = [other for other in lines if other["process"] == line["process"] and other["id"] > line["id"]]
        need(later, "no later operation of a slot")
        later[0]["invoke_ns"] = line["complete_ns"] - 1


def an_operation_was_sent_in_another_session(run: RunCopy) -> None:
    """The session of an operation, in the history."""
    with run.changing(HISTORY) as lines:
        line = answered(lines)
        line["session"] = _another_session(lines, line)


def an_entry_is_in_another_session(run: RunCopy) -> None:
    """The session of an entry, in all logs."""
    lines = run.lines(HISTORY)
    line = answered(lines)
    other = _another_session(lines, line)

    def change(entries: list[Any]) -> list[Any]:
        entries[place_of_operation(entries, line)].put(SESSION, "q", other)
        return entries

    change_logs(run, change)


def no_operation_names_its_session(run: RunCopy) -> None:
    """The sessions of all operations."""
    with run.changing(HISTORY) as lines:
        need(any(line.pop("session", None) is not None for line in list(lines)), "no sessions")
        for line in lines:
            line.pop("session", None)


def an_answered_operation_is_recorded_as_unknown(run: RunCopy) -> None:
    """An answered operation as unanswered."""
    with run.changing(HISTORY) as lines:
        forget(answered(lines))


def _another_session(lines: list[Line], line: Line) -> int:
    others = {int(other["session"]) for other in lines if other.get("session") not in (None, line.get("session"))}
    need(others, "one session")
    return min(others)


def _last_of_its_slot(lines: list[Line]) -> Line:
    last = {line["process"]: line for line in lines if line["outcome"] == "ok"}
    need(last, "no answered operation")
    return max(last.values(), key=lambda line: line["invoke_ns"])


_LOST = Promise.ACKNOWLEDGED_NOT_LOST
_LINEAR = Promise.LINEARIZABLE
_COMPLETE = Promise.HISTORY_COMPLETE
_ORDER = Promise.CLIENTS_IN_ORDER
_MODELS = (_LINEAR, Promise.MONEY_CONSERVED, Promise.TIMERS_KEPT)
_COMMITTED = (Promise.COMMITS_KEPT, _LOST, _LINEAR, Promise.CLIENTS_IN_TIME)

HISTORY_EDITS = (
    edit(an_acknowledged_read_is_in_no_log, _LOST),
    edit(an_acknowledged_write_is_in_no_log, _LOST),
    edit(an_acknowledged_operation_is_in_no_log_and_not_in_the_history, _COMPLETE, _ORDER, Promise.EVIDENCE_COMPLETE),
    edit(an_unanswered_operation_is_not_in_the_history, _COMPLETE, _ORDER, Promise.EVIDENCE_COMPLETE),
    edit(an_operation_that_the_log_has_is_not_in_the_history, _COMPLETE),
    edit(the_last_third_of_the_history_is_gone, _COMPLETE),
    edit(an_operation_is_in_the_log_twice, Promise.APPLIED_ONCE),
    edit(an_operation_is_in_the_history_twice, _COMPLETE, _ORDER, _LINEAR),
    edit(an_operation_that_was_never_sent_is_in_the_log, Promise.APPLIED_ONCE),
    edit(two_reads_have_each_others_answers, *_MODELS),
    edit(a_read_returns_an_older_value, *_MODELS),
    edit(a_read_returns_an_unwritten_value, *_MODELS),
    edit(a_compare_and_set_has_the_other_answer, *_MODELS),
    edit(a_list_lacks_an_element, *_MODELS),
    edit(a_list_has_its_elements_in_another_order, *_MODELS),
    edit(a_write_had_another_value, _LOST),
    edit(an_operation_had_another_key, _LOST),
    edit(an_answer_names_another_position, _LOST),
    edit(an_operation_that_no_log_has_was_answered, _LOST),
    edit(an_answer_came_before_its_request, _LINEAR, _ORDER, *_COMMITTED),
    edit(an_answer_came_at_once, *_COMMITTED),
    edit(all_answers_came_at_once, *_COMMITTED),
    edit(an_answer_came_without_a_leader, *_COMMITTED),
    edit(an_answer_came_after_more_than_a_failover, Promise.CLIENTS_IN_TIME),
    edit(answers_of_a_session_overtake_each_other, _ORDER),
    edit(operations_are_in_the_other_order_in_the_log, _LINEAR),
    edit(the_clock_of_the_clients_is_an_hour_ahead, Promise.EVIDENCE_BOUND, *_COMMITTED),
    edit(a_slot_asks_before_it_is_answered, _ORDER),
    edit(an_operation_was_sent_in_another_session, _ORDER),
    edit(an_entry_is_in_another_session, _ORDER),
    edit(no_operation_names_its_session, _ORDER, Promise.EVIDENCE_COMPLETE, Promise.EVIDENCE_BOUND),
    edit(an_answered_operation_is_recorded_as_unknown, _ORDER),
)
