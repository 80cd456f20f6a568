"""Edits of the members' traces: processes, states of modules, ends of clusters, and time."""

from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.records import LOST_EVENTS
from upheaval.tamper.edit import edit
from upheaval.tamper.log_change import TIME, change_in_place, templates
from upheaval.tamper.recordings import Entry
from upheaval.tamper.run_copy import (
    CONTROLS,
    FAULTS,
    HISTORY,
    MANIFEST,
    SESSIONS,
    Lacking,
    Line,
    RunCopy,
    first,
    need,
    remove,
)
from upheaval.tamper.trace_edits import followers, having, last_term, place, stamp, without_lines
from upheaval_node.types import S

_LATE_S: Final = 10


# --- processes ---


def _after_the_last_restart(lines: list[Line]) -> int:
    last = place(lines, -1, event="process-start")
    end = max((at for at in having(lines, event="process-end")), default=len(lines))
    return (last + (end if end > last else len(lines))) // 2


def a_process_ends_in_order_without_an_order(run: RunCopy) -> None:
    """An end with status 0 in the middle, in place of a kill."""
    _ends_by_itself(run, 0, "")


def a_process_ends_by_a_defect(run: RunCopy) -> None:
    """An end with status 1 in the middle, in place of a kill."""
    _ends_by_itself(run, 1, "KeyError")


def _ends_by_itself(run: RunCopy, status: int, reason: str) -> None:
    """Let the killed member record its own end, and remove the fault."""
    with run.changing(FAULTS) as faults:
        kills = (fault for fault in faults if fault["what"] == "kill" and len(fault["members"]) == 1)
        kill = first(kills, "no kill of a member")
        faults.remove(kill)
    with run.manifest() as manifest:
        manifest["planned_faults"] = [name for name in manifest["planned_faults"] if name != kill["name"]]
    with run.trace(kill["members"][0]) as lines:
        start = next(at for at in having(lines, event="process-start") if lines[at]["ts"] > kill["inject_end_ns"])
        lines.insert(start, {**stamp(lines[start - 1]), "event": "process-end", "status": status, "reason": reason})


def a_process_starts_again_without_an_end(run: RunCopy) -> None:
    """A start in the middle."""
    member = followers(run, last_term(run)[1])[0]
    with run.trace(member) as lines:
        at = _after_the_last_restart(lines)
        lines.insert(at + 1, {**stamp(lines[at]), "event": "process-start", "version": "0.1.0"})


def a_restart_is_not_traced(run: RunCopy) -> None:
    """The last start of a member."""
    for member in run.members:
        lines = run.lines(f"member-{member}/trace.jsonl")
        starts = list(having(lines, event="process-start"))
        if len(starts) > 1:
            del lines[starts[-1]]
            run.put_lines(f"member-{member}/trace.jsonl", lines)
            return
    raise Lacking("no restart")


def a_trace_breaks_off(run: RunCopy) -> None:
    """The last third of a trace."""
    with run.trace(run.members[-1]) as lines:
        del lines[len(lines) * 2 // 3 :]


def a_trace_begins_late(run: RunCopy) -> None:
    """The first third of a trace."""
    with run.trace(run.members[-1]) as lines:
        del lines[: len(lines) // 3]


def a_trace_has_a_hole(run: RunCopy) -> None:
    """A tenth of a trace."""
    with run.trace(run.members[-1]) as lines:
        del lines[len(lines) // 2 : len(lines) // 2 + len(lines) // 10]


def a_trace_is_gone(run: RunCopy) -> None:
    """A trace."""
    remove(run.last_member.trace, "no trace")


def a_line_is_of_another_process(run: RunCopy) -> None:
    """The process of a line."""
    with run.trace(run.members[-1]) as lines:
        lines[len(lines) // 2]["pid"] += 1000


def a_line_is_of_another_member(run: RunCopy) -> None:
    """The member of a line."""
    need(len(run.members) > 1, "a single member")
    with run.trace(run.members[-1]) as lines:
        lines[len(lines) // 2]["member"] = 0


def a_member_reports_damage(run: RunCopy) -> None:
    """An error about a damaged catalog."""
    _add_line(run, event="error", kind="catalog", text="the catalog is damaged")


def a_service_raised(run: RunCopy) -> None:
    """An exception of a service."""
    where = {"service_id": 0, "callback": "on_session_message", "error": "KeyError: 1", "where": "x.py:1 in f"}
    _add_line(run, event="service-raised", **where, log_position=96, count=1, traceback="")


def trace_lines_were_lost(run: RunCopy) -> None:
    """A line that says that lines were lost."""
    with run.trace(run.members[-1]) as lines:
        lines[len(lines) // 2][LOST_EVENTS] = 5


def _add_line(run: RunCopy, **fields: object) -> None:
    with run.trace(followers(run, last_term(run)[1])[0]) as lines:
        at = _after_the_last_restart(lines)
        line = stamp(lines[at])
        lines.insert(at + 1, {**line, **fields})


# --- states, snapshots, the end ---


def a_module_stops_taking_what_clients_send(run: RunCopy) -> None:
    """A leader's module that is suspended while clients are answered."""
    _, leader = last_term(run)
    with run.trace(leader) as lines:
        at = _after_the_last_restart(lines)
        lines.insert(at + 1, {**stamp(lines[at]), "event": "module_state", "old": "ACTIVE", "new": "SUSPENDED"})


def a_service_acknowledges_a_snapshot_elsewhere(run: RunCopy) -> None:
    """The position of an acknowledged snapshot."""
    with run.trace(run.members[-1]) as lines:
        taken = place(lines, event="module_state", new="SNAPSHOT")
        at = first((at for at in having(lines, event="service-ack") if at > taken), "no acknowledged snapshot")
        lines[at]["log_position"] -= 32


def a_member_ends_elsewhere(run: RunCopy) -> None:
    """The position at which a member ended with its cluster."""
    with run.trace(run.members[-1]) as lines:
        lines[place(lines, event="cluster-end")]["log_position"] -= 32


def a_member_does_not_end_with_its_cluster(run: RunCopy) -> None:
    """The end of a member with its cluster."""
    with run.trace(run.members[-1]) as lines:
        at = place(lines, event="cluster-end")
        lines[:] = [line for place, line in enumerate(lines) if place != at and line["event"] != "service-terminate"]


def a_process_ends_with_its_cluster_by_a_failure(run: RunCopy) -> None:
    """The exit status of such an end."""
    with run.trace(run.members[-1]) as lines:
        place(lines, event="cluster-end")
        lines[place(lines, event="process-end")]["status"] = 7


# --- time ---


def a_failover_is_late(run: RunCopy) -> None:
    """A failover that takes 10 s longer, in all files.

    Everything later than 0.5 s after the first kill is delayed by 10 s.
    """
    delay_failover(run)


def delay_failover(run: RunCopy) -> int:
    """Delay the failover in all files. Returns the time when the killed leader was gone. Raises `Lacking`."""
    kills = [fault for fault in run.lines(FAULTS) if fault["what"] == "kill"]
    need(kills, "no kill")
    killed_ns = int(kills[0]["inject_end_ns"])
    _require_leader(run, kills[0])
    start_ms = next(line["epoch_ms"] for line in run.lines("member-0/trace.jsonl"))
    start_ns = next(line["ts"] for line in run.lines("member-0/trace.jsonl"))
    killed_ms = start_ms + (killed_ns - start_ns) // 10**6
    late_ns, half = _LATE_S * S, S // 2

    def later(line: Line, *names: str) -> None:
        for name in names:
            if line.get(name) is not None and line[name] > killed_ns + half:
                line[name] += late_ns

    def trace(_: int, lines: list[Line]) -> None:
        for line in lines:
            if line["ts"] > killed_ns + half:
                line["ts"] += late_ns
                line["epoch_ms"] += late_ns // 10**6
                if "timestamp" in line:
                    line["timestamp"] += late_ns // 10**6

    run.each_trace(trace)
    for name in (HISTORY, FAULTS, SESSIONS, CONTROLS):
        if (run.path / name).exists():
            with run.changing(name) as lines:
                for line in lines:
                    later(line, "invoke_ns", "complete_ns", "ended_ns", "asked_ns", "begin_ns", "end_ns")
                    later(line, "inject_begin_ns", "inject_end_ns", "heal_begin_ns", "heal_end_ns")
    with run.changing_object(MANIFEST) as manifest:
        manifest["converge"]["completed_ns"] += late_ns

    def log(entries: list[Entry]) -> None:
        for at in templates(entries, *TIME):
            entry = entries[at]
            time = entry.long(TIME[entry.template])
            if time > killed_ms + 500:
                entry.put(TIME[entry.template], "q", time + late_ns // 10**6)

    change_in_place(run, log)
    return killed_ns


def _require_leader(run: RunCopy, fault: Line) -> None:
    lines = run.lines(f"member-{fault['members'][0]}/trace.jsonl")
    led = [lines[at]["ts"] for at in having(lines, event="election_state", state="LEADER_READY")]
    need(any(ts < fault["inject_end_ns"] for ts in led), "no leader was killed")


def a_leader_is_silent(run: RunCopy) -> None:
    """2 s without a heartbeat, sent or received."""
    term, leader = last_term(run)
    lines = run.lines(f"member-{leader}/trace.jsonl")
    sent = [lines[at]["ts"] for at in having(lines, event="send", message="CommitPosition", leadership_term_id=term)]
    need(len(sent) > 100, "few commit positions")
    last = sent[-1]
    without_lines(
        run,
        lambda _, line: line.get("message") == "CommitPosition" and last - 25 * S // 10 < line["ts"] < last - S // 2,
    )


def a_follower_gives_up_a_leader_that_it_hears(run: RunCopy) -> None:
    """A heartbeat right before an election."""
    for member in run.members:
        lines = run.lines(f"member-{member}/trace.jsonl")
        at = next((at for at in having(lines, event="election_state", reason="leader heartbeat timeout")), None)
        if at is None:
            continue
        heard = [line for line in lines[:at] if line.get("message") == "CommitPosition" and line["event"] == "receive"]
        if heard:
            lines.insert(at, {**heard[-1], "ts": lines[at]["ts"] - 1000, "epoch_ms": lines[at]["epoch_ms"]})
            run.put_lines(f"member-{member}/trace.jsonl", lines)
            return
    raise Lacking("no leader was given up")


def the_wall_clock_of_a_member_is_an_hour_ahead(run: RunCopy) -> None:
    """The wall clock of the leader."""
    _, leader = last_term(run)
    with run.trace(leader) as lines:
        for line in lines:
            line["epoch_ms"] += 3_600_000


def a_trace_goes_back_in_time(run: RunCopy) -> None:
    """The second half of a trace, 5 s back."""
    with run.trace(run.members[-1]) as lines:
        for line in lines[len(lines) // 2 :]:
            line["ts"] -= 5 * S


_COMMITS = Promise.COMMITS_KEPT
_COMPLETE = Promise.EVIDENCE_COMPLETE
_BOUND = Promise.EVIDENCE_BOUND
_ENDS = Promise.NO_UNEXPLAINED_END
_ONE = Promise.ENDS_AT_ONE_POSITION

PROCESS_EDITS = (
    edit(a_process_ends_in_order_without_an_order, _ENDS),
    edit(a_process_ends_by_a_defect, _ENDS),
    edit(a_process_starts_again_without_an_end, _ENDS),
    edit(a_restart_is_not_traced, _ENDS, _BOUND, _COMPLETE),
    edit(a_trace_breaks_off, _COMPLETE),
    edit(a_trace_begins_late, _COMPLETE, _BOUND),
    edit(a_trace_has_a_hole, _COMPLETE, _COMMITS),
    edit(a_trace_is_gone, _COMPLETE),
    edit(a_line_is_of_another_process, _BOUND),
    edit(a_line_is_of_another_member, _BOUND),
    edit(a_member_reports_damage, _ENDS),
    edit(a_service_raised, Promise.SERVICES_RAISED_NOTHING),
    edit(trace_lines_were_lost, _COMPLETE),
    edit(a_module_stops_taking_what_clients_send, Promise.PROGRESS, Promise.ADMIN_COMMANDS_PROVED),
    edit(a_service_acknowledges_a_snapshot_elsewhere, _COMPLETE, _BOUND),
    edit(a_member_ends_elsewhere, _ONE),
    edit(a_member_does_not_end_with_its_cluster, _ONE),
    edit(a_process_ends_with_its_cluster_by_a_failure, _ONE, _ENDS),
    edit(a_failover_is_late, Promise.LEADER_FOUND),
    edit(a_leader_is_silent, Promise.BOUNDS_KEPT),
    edit(a_follower_gives_up_a_leader_that_it_hears, Promise.BOUNDS_KEPT),
    edit(the_wall_clock_of_a_member_is_an_hour_ahead, Promise.TIME_KEPT),
    edit(a_trace_goes_back_in_time, _BOUND, _COMPLETE, _ENDS),
)
