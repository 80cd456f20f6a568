"""Edits of what was done to a run: faults, commands of operators, ends of sessions, attempts."""

import json
from collections.abc import Callable
from typing import Final

from upheaval.checkers.promises import Promise
from upheaval.tamper.edit import applied_by, edit
from upheaval.tamper.process_edits import delay_failover
from upheaval.tamper.recordings import SNAPSHOT, log_records, put_log_records
from upheaval.tamper.run_copy import (
    ATTEMPTS,
    CONTROLS,
    FAULTS,
    HISTORY,
    SESSIONS,
    Lacking,
    Line,
    RunCopy,
    first,
    need,
    remove,
)
from upheaval_node.types import MS, S

_TIMES: Final = ("inject_begin_ns", "inject_end_ns", "heal_begin_ns", "heal_end_ns")


def _change_fault(run: RunCopy, wanted: Callable[[Line], bool], what: str, change: Callable[[Line], None]) -> None:
    with run.changing(FAULTS) as faults:
        fault = first((fault for fault in faults if wanted(fault)), what)
        change(fault)


def _kill(run: RunCopy, change: Callable[[Line], None]) -> None:
    _change_fault(run, lambda fault: fault["what"] == "kill", "no kill", change)


def _link(run: RunCopy, change: Callable[[Line], None]) -> None:
    _change_fault(run, lambda fault: fault["what"] in ("blackhole", "reset", "timeout"), "no link was cut", change)


def _any(run: RunCopy, change: Callable[[Line], None]) -> None:
    _change_fault(run, lambda fault: fault["heal_begin_ns"] is not None, "no fault that was healed", change)


# --- when ---


@applied_by(_kill)
def a_kill_is_recorded_long_before_the_process_died(fault: Line) -> None:
    """A kill, 2.5 s before its process died."""
    for name in ("inject_begin_ns", "inject_end_ns", "asked_ns"):
        fault[name] -= 25 * S // 10


@applied_by(_kill)
def a_kill_is_recorded_long_after_the_process_died(fault: Line) -> None:
    """A kill, long after its process died."""
    late = (fault["heal_begin_ns"] - fault["inject_end_ns"]) * 9 // 10
    for name in ("inject_begin_ns", "inject_end_ns", "asked_ns"):
        fault[name] += late


@applied_by(_any)
def a_fault_is_healed_before_it_begins(fault: Line) -> None:
    """A heal before its fault."""
    fault["heal_begin_ns"] = fault["inject_begin_ns"] - 10 * MS
    fault["heal_end_ns"] = fault["inject_begin_ns"] - 5 * MS


def a_fault_ends_before_it_begins(run: RunCopy) -> None:
    """The end of an injection before its beginning."""
    _any(run, lambda fault: fault.update(inject_end_ns=fault["inject_begin_ns"] - 10 * MS))


@applied_by(_any)
def a_fault_is_healed_after_the_end_of_the_run(fault: Line) -> None:
    """A heal 100 s later."""
    fault["heal_begin_ns"] += 100 * S
    fault["heal_end_ns"] += 100 * S


@applied_by(_any)
def a_fault_is_put_in_after_the_end_of_the_run(fault: Line) -> None:
    """A fault 100 s later."""
    for name in (*_TIMES, "asked_ns"):
        fault[name] += 100 * S


@applied_by(_kill)
def a_killed_process_returns_before_its_heal(fault: Line) -> None:
    """A heal 2 s after the process was back."""
    fault["heal_begin_ns"] += 2 * S
    fault["heal_end_ns"] += 2 * S


# --- who and what ---


def a_proof_names_the_process_of_another_member(run: RunCopy) -> None:
    """The process in a proof."""

    def change(fault: Line) -> None:
        hit = f"member-{fault['members'][0]}"
        evidence = fault["inject_proof"]["evidence"]
        other = f"member-{(fault['members'][0] + 1) % len(run.members)}"
        need(hit in evidence, "no proof that names a member")
        fault["inject_proof"]["evidence"] = evidence.replace(hit, other)

    _kill(run, change)


def another_member_was_killed(run: RunCopy) -> None:
    """The member of a kill and its proof.

    Everything that the fault says names the other member.
    """

    def change(fault: Line) -> None:
        hit, other = fault["members"][0], (fault["members"][0] + 1) % len(run.members)
        need(len(fault["members"]) == 1 and hit != other, "no kill of one member of several")
        text = json.dumps(fault).replace(f"member-{hit}", f"member-{other}")
        fault.clear()
        fault.update({**json.loads(text), "members": [other]})

    _kill(run, change)


def a_cut_names_other_links(run: RunCopy) -> None:
    """The links of a cut and its proof."""

    def change(fault: Line) -> None:
        count = len(run.members)
        text = json.dumps(fault)
        for member in range(count):
            text = text.replace(f"member-{member}", f"member+{(member + 1) % count}")
        fault.clear()
        fault.update(json.loads(text.replace("member+", "member-")))
        fault["members"] = sorted({(member + 1) % count for member in fault["members"]})

    _link(run, change)


def a_kill_is_recorded_as_a_stop(run: RunCopy) -> None:
    """A stop for a kill."""
    _kill(run, lambda fault: fault.update(what="stop", statement=fault["statement"].replace("kill", "stop")))


def a_fault_is_gone(run: RunCopy) -> None:
    """A fault and its name among the planned ones."""
    with run.changing(FAULTS) as faults:
        fault = faults.pop(0)
    with run.manifest() as manifest:
        manifest["planned_faults"] = [name for name in manifest["planned_faults"] if name != fault.get("name")]


def a_fault_is_recorded_that_never_was(run: RunCopy) -> None:
    """A pause of a member that was well."""
    _add_pause(run, begin_ns=None)


def a_late_failover_is_covered_by_a_fault(run: RunCopy) -> None:
    """A failover 10 s late, and a pause of that length."""
    killed_ns = delay_failover(run)
    _add_pause(run, begin_ns=killed_ns)


def a_late_failover_is_covered_by_a_cut(run: RunCopy) -> None:
    """A failover 10 s late, and a cut of that length.

    Of the links between the two that were left.
    """
    killed_ns = delay_failover(run)
    with run.changing(FAULTS) as faults:
        hit = faults[0]["members"][0]
        one, other = [member for member in run.members if member != hit][:2]
        fault = _fault(faults[0], killed_ns, 10 * S)
        fault.update(what="blackhole", where=f"member-{one} <-> member-{other}", members=[one, other])
        fault["statement"] = f"blackhole member-{one} <-> member-{other}"
        fault["inject_proof"] = {"holds": True, "evidence": f"nothing came out of member-{one} -> member-{other}"}
        faults.append(fault)


def _add_pause(run: RunCopy, begin_ns: int | None) -> None:
    with run.changing(FAULTS) as faults:
        hit = {member for fault in faults for member in fault["members"]}
        well = [member for member in run.members if member not in hit]
        need(well, "no member without a fault")
        begin = faults[0]["heal_end_ns"] or faults[0]["inject_end_ns"]
        fault = _fault(faults[0], begin_ns if begin_ns is not None else begin, 10 * S if begin_ns else S // 4)
        fault.update(what="pause", where=f"member-{well[0]}", members=[well[0]], statement=f"pause member-{well[0]}")
        fault["inject_proof"] = {"holds": True, "evidence": f"member-{well[0]}: no turns"}
        faults.append(fault)


def _fault(like: Line, begin_ns: int, length_ns: int) -> Line:
    times = dict(zip(_TIMES, (begin_ns, begin_ns + MS, begin_ns + length_ns, begin_ns + length_ns + MS), strict=True))
    proof = {"holds": True, "evidence": "connections go through"}
    return {**like, **times, "asked_ns": begin_ns, "name": "added", "heal_proof": proof}


def a_fault_has_no_proof(run: RunCopy) -> None:
    """No proof of a fault."""
    _any(run, lambda fault: fault.update(inject_proof=None))


def a_fault_has_a_proof_that_does_not_hold(run: RunCopy) -> None:
    """A proof that does not hold."""
    _any(run, lambda fault: fault["inject_proof"].update(holds=False))


def a_fault_is_not_healed(run: RunCopy) -> None:
    """A fault that was not healed."""
    _any(run, lambda fault: fault.update(heal_begin_ns=None, heal_end_ns=None, heal_proof=None))


def a_fault_hit_after_more_operations_than_there_were(run: RunCopy) -> None:
    """The operations before a fault."""
    _any(run, lambda fault: fault.update(inject_operations=10**6, heal_operations=10**6))


# --- commands ---


def _command(run: RunCopy, what: str, change: Callable[[Line], None]) -> None:
    with run.changing(CONTROLS) as controls:
        command = first((control for control in controls if control["what"] == what), f"no {what}")
        change(command)


def only_one_member_took_a_snapshot(run: RunCopy) -> None:
    """No snapshot on all members but one.

    Recording logs and traces of all others have none, and controls.jsonl says that all did.
    """
    position = _snapshot_position(run)
    for member in list(run.members)[1:]:
        folder = run.folder.member(member)
        records = log_records(folder)
        put_log_records(
            folder, [record for record in records if record.what != SNAPSHOT or record.position != position]
        )
        with run.trace(member) as lines:
            lines[:] = [line for line in lines if not _is_of_snapshot(line, position)]


def _is_of_snapshot(line: Line, position: int) -> bool:
    is_state = line["event"] == "module_state" and "SNAPSHOT" in (line["old"], line["new"])
    return is_state or (line["event"] == "service-ack" and line["log_position"] == position)


def _snapshot_position(run: RunCopy) -> int:
    for command in reversed(run.lines(CONTROLS)):
        if command["what"] == "snapshot" and command["members"]:
            return int(next(iter(command["members"].values()))["snapshot_position"])
    raise Lacking("no snapshot")


def a_command_is_gone(run: RunCopy) -> None:
    """A command and its name among the planned ones."""
    with run.changing(CONTROLS) as controls:
        commands = (control for control in controls if control["what"] in ("snapshot", "suspend"))
        command = first(commands, "no snapshot and no suspend")
        controls.remove(command)
    with run.manifest() as manifest:
        planned = list(manifest["planned_commands"])
        planned.remove(command["what"])
        manifest["planned_commands"] = planned


def a_resume_is_gone(run: RunCopy) -> None:
    """A resume and its name among the planned ones."""
    with run.changing(CONTROLS) as controls:
        others = [command for command in controls if command["what"] != "resume"]
        need(len(others) < len(controls), "no resume")
        controls[:] = others
    with run.manifest() as manifest:
        manifest["planned_commands"] = [what for what in manifest["planned_commands"] if what != "resume"]


def commands_are_recorded_that_were_never_given(run: RunCopy) -> None:
    """A suspend and a resume."""
    with run.changing(CONTROLS) as controls:
        last = controls[-1]
        for what, state in (("suspend", "SUSPENDED"), ("resume", "ACTIVE")):
            members = {str(member): {"module_state": state} for member in run.members}
            proof = {"holds": True, "evidence": f"all members are {state}"}
            controls.append({**last, "what": what, "members": members, "proof": proof})


def a_snapshot_is_recorded_at_another_position(run: RunCopy) -> None:
    """The position of a snapshot in controls.jsonl."""

    def change(command: Line) -> None:
        for seen in command["members"].values():
            seen["snapshot_position"] -= 32

    _command(run, "snapshot", change)


def a_snapshot_was_taken_by_another_leader(run: RunCopy) -> None:
    """The leader that took a command."""
    need(len(run.members) > 1, "a single member")
    _command(run, "snapshot", lambda command: command.update(leader=(command["leader"] + 1) % len(run.members)))


def a_snapshot_is_recorded_long_before_it_was_taken(run: RunCopy) -> None:
    """A command, 0.2 s before its entry."""

    def change(command: Line) -> None:
        command["begin_ns"] -= S // 5
        command["end_ns"] -= S // 5

    _command(run, "snapshot", change)


def a_command_ends_before_it_begins(run: RunCopy) -> None:
    """The end of a command before its beginning."""
    _command(run, "snapshot", lambda command: command.update(end_ns=command["begin_ns"] - S))


def a_command_has_a_proof_that_does_not_hold(run: RunCopy) -> None:
    """A proof that does not hold."""
    _command(run, "snapshot", lambda command: command["proof"].update(holds=False))


def a_suspend_left_a_member_active(run: RunCopy) -> None:
    """The state of a member after a suspend."""
    _command(run, "suspend", lambda command: command["members"]["0"].update(module_state="ACTIVE"))


def a_shutdown_left_another_status(run: RunCopy) -> None:
    """An exit status after a shutdown."""
    _command(run, "shutdown", lambda command: command["members"]["0"].update(exit_statuses=[7]))


def a_shutdown_left_its_snapshot_elsewhere(run: RunCopy) -> None:
    """The position of a shutdown in controls.jsonl."""

    def change(command: Line) -> None:
        for seen in command["members"].values():
            seen["snapshot_position"] -= 32

    _command(run, "shutdown", change)


def a_shutdown_is_recorded_as_an_abort(run: RunCopy) -> None:
    """An abort for a shutdown."""
    _command(run, "shutdown", lambda command: command.update(what="abort"))


# --- sessions and attempts ---


def no_session_has_an_end(run: RunCopy) -> None:
    """Sessions.jsonl."""
    run.lines(SESSIONS)
    (run.path / SESSIONS).unlink()


def a_session_has_no_end(run: RunCopy) -> None:
    """A line of sessions.jsonl."""
    with run.changing(SESSIONS) as ends:
        ends.pop()


def a_client_asks_after_it_left(run: RunCopy) -> None:
    """The end of a session, in the middle of its operations."""
    with run.changing(SESSIONS) as ends:
        end = ends[-1]
        asked = [line["invoke_ns"] for line in run.lines(HISTORY) if line.get("session") == end["session"]]
        need(len(asked) > 20, "few operations of a session that ended")
        end["ended_ns"] = sorted(asked)[len(asked) // 2]


def a_client_left_before_it_came(run: RunCopy) -> None:
    """The end of a session at time 1."""
    with run.changing(SESSIONS) as ends:
        ends[0]["ended_ns"] = 1


def a_session_ends_that_never_was(run: RunCopy) -> None:
    """The end of a session that never opened."""
    with run.changing(SESSIONS) as ends:
        ends.append({**ends[-1], "session": 999})


def no_attempt_with_wrong_credentials_is_recorded(run: RunCopy) -> None:
    """Attempts.jsonl."""
    run.lines(ATTEMPTS)
    (run.path / ATTEMPTS).unlink()


def one_kind_of_attempt_is_gone(run: RunCopy) -> None:
    """All attempts of one kind."""
    with run.changing(ATTEMPTS) as attempts:
        kind = attempts[0]["shown"]
        attempts[:] = [attempt for attempt in attempts if attempt["shown"] != kind]


def a_wrong_secret_was_admitted(run: RunCopy) -> None:
    """The answer to an attempt."""
    with run.changing(ATTEMPTS) as attempts:
        attempts[0]["answer"] = "admitted"


def the_names_of_principals_are_others(run: RunCopy) -> None:
    """The names of principals."""
    with run.changing_object("security.json") as security:
        need(security["principals"], "no credentials")
        security["principals"] = ["another"]


def the_run_had_no_credentials(run: RunCopy) -> None:
    """Security.json."""
    remove(run.path / "security.json", "no credentials")


_FAULTS = (Promise.FAULTS_PROVED, Promise.FAULTS_IN_TIME)
_ENDS = Promise.NO_UNEXPLAINED_END
_BOUND = Promise.EVIDENCE_BOUND
_COMPLETE = Promise.EVIDENCE_COMPLETE
_COMMANDS = (Promise.ADMIN_COMMANDS_PROVED, _BOUND, _COMPLETE)
_LATE = (*_FAULTS, _BOUND, Promise.LEADER_FOUND, _COMPLETE)
_ONE = Promise.ENDS_AT_ONE_POSITION
_CLIENTS = (Promise.CLIENTS_IN_TIME, Promise.CLIENTS_IN_ORDER, Promise.SESSIONS_KEPT, _COMPLETE, _BOUND)
_CREDENTIALS = Promise.ONLY_CREDENTIALS

FAULT_EDITS = (
    edit(a_kill_is_recorded_long_before_the_process_died, *_FAULTS, _ENDS, _BOUND),
    edit(a_kill_is_recorded_long_after_the_process_died, *_FAULTS, _ENDS, _BOUND),
    edit(a_fault_is_healed_before_it_begins, *_FAULTS, _BOUND),
    edit(a_fault_ends_before_it_begins, *_FAULTS, _BOUND),
    edit(a_fault_is_healed_after_the_end_of_the_run, *_FAULTS, _BOUND, Promise.RUN_CONVERGED),
    edit(a_fault_is_put_in_after_the_end_of_the_run, *_FAULTS, _BOUND, _ENDS),
    edit(a_killed_process_returns_before_its_heal, *_FAULTS, _BOUND, Promise.RUN_CONVERGED),
    edit(a_proof_names_the_process_of_another_member, *_FAULTS, _BOUND),
    edit(another_member_was_killed, *_FAULTS, _ENDS, _BOUND),
    edit(a_cut_names_other_links, *_FAULTS, _BOUND, Promise.BOUNDS_KEPT),
    edit(a_kill_is_recorded_as_a_stop, *_FAULTS, _ENDS, _BOUND),
    edit(a_fault_is_gone, _ENDS, Promise.BOUNDS_KEPT, _COMPLETE, *_LATE),
    edit(a_fault_is_recorded_that_never_was, *_FAULTS, _BOUND),
    edit(a_late_failover_is_covered_by_a_fault, *_LATE),
    edit(a_late_failover_is_covered_by_a_cut, *_LATE),
    edit(a_fault_has_no_proof, *_FAULTS),
    edit(a_fault_has_a_proof_that_does_not_hold, *_FAULTS),
    edit(a_fault_is_not_healed, *_FAULTS, _BOUND, _ENDS),
    edit(a_fault_hit_after_more_operations_than_there_were, *_FAULTS, _BOUND),
    edit(only_one_member_took_a_snapshot, *_COMMANDS, Promise.SNAPSHOT_IS_REPLAY),
    edit(a_command_is_gone, *_COMMANDS),
    edit(a_resume_is_gone, *_COMMANDS),
    edit(commands_are_recorded_that_were_never_given, *_COMMANDS),
    edit(a_snapshot_is_recorded_at_another_position, *_COMMANDS),
    edit(a_snapshot_was_taken_by_another_leader, *_COMMANDS),
    edit(a_snapshot_is_recorded_long_before_it_was_taken, *_COMMANDS),
    edit(a_command_ends_before_it_begins, *_COMMANDS),
    edit(a_command_has_a_proof_that_does_not_hold, *_COMMANDS),
    edit(a_suspend_left_a_member_active, *_COMMANDS),
    edit(a_shutdown_left_another_status, *_COMMANDS, _ONE),
    edit(a_shutdown_left_its_snapshot_elsewhere, *_COMMANDS, _ONE),
    edit(a_shutdown_is_recorded_as_an_abort, *_COMMANDS, _ONE),
    edit(no_session_has_an_end, *_CLIENTS),
    edit(a_session_has_no_end, *_CLIENTS),
    edit(a_client_asks_after_it_left, *_CLIENTS),
    edit(a_client_left_before_it_came, *_CLIENTS),
    edit(a_session_ends_that_never_was, *_CLIENTS),
    edit(no_attempt_with_wrong_credentials_is_recorded, _CREDENTIALS, _COMPLETE),
    edit(one_kind_of_attempt_is_gone, _CREDENTIALS),
    edit(a_wrong_secret_was_admitted, _CREDENTIALS),
    edit(the_names_of_principals_are_others, _CREDENTIALS),
    edit(the_run_had_no_credentials, _CREDENTIALS, _COMPLETE),
)
