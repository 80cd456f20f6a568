"""Runs of which the admin commands are not those that members took, and runs with a manifest of other ones.

In `snapshot-and-restart` the leader takes a snapshot, suspends and resumes the cluster, ends it, and takes a snapshot
after the start. In `leader-killed` no admin command is given.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from support.bad_runs.binding import FIRST_SNAPSHOT
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.records import RunFolder, seal

_COMMANDS, _KILLED = "snapshot-and-restart", "leader-killed"
_MS = 1_000_000


def _unseal(run: Path) -> None:
    _put(run, sealed=None)
    (run / "seal.json").unlink(missing_ok=True)


def _put(run: Path, **fields: object) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, **fields}))


def _rewrite(run: Path, name: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    path = run / name
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    change(lines)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def _forged(name: str, change: Callable[[list[dict[str, Any]]], None]) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        _unseal(run)
        _rewrite(run, name, change)

    return damage


def _reseal_without(run: Path, number: int) -> None:
    """A command less, in a run that says that it was collected."""
    _unseal(run)
    _rewrite(run, "controls.jsonl", lambda lines: lines.pop(number))
    seal(RunFolder(run))


def the_first_snapshot_is_not_written_down(run: Path) -> None:
    _reseal_without(run, 0)


def the_first_snapshot_and_the_seal_are_gone(run: Path) -> None:
    _forged("controls.jsonl", lambda lines: lines.pop(0))(run)


def the_resume_is_not_written_down(run: Path) -> None:
    _reseal_without(run, 2)


def a_second_suspend_is_written_down(run: Path) -> None:
    _forged("controls.jsonl", lambda lines: lines.append(lines[1]))(run)


def a_follower_is_said_to_have_taken_the_snapshot(run: Path) -> None:
    _forged("controls.jsonl", lambda lines: lines[0].update(leader=(lines[0]["leader"] + 1) % 3))(run)


def the_suspend_is_said_to_be_over_before(run: Path) -> None:
    def earlier(lines: list[dict[str, Any]]) -> None:
        lines[1].update(begin_ns=lines[1]["begin_ns"] - 300 * _MS, end_ns=lines[1]["end_ns"] - 300 * _MS)

    _forged("controls.jsonl", earlier)(run)


def the_snapshot_is_said_to_end_before_it_begins(run: Path) -> None:
    _forged("controls.jsonl", lambda lines: lines[0].update(end_ns=lines[0]["begin_ns"] - 5 * _MS))(run)


def a_member_is_said_to_be_active_after_the_suspend(run: Path) -> None:
    _forged("controls.jsonl", lambda lines: lines[1]["members"]["2"].update(module_state="ACTIVE"))(run)


def _leave_out(run: Path, member: int, *what: str) -> None:
    def leave_out(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line["what"] in what:
                line["members"].pop(str(member))

    _forged("controls.jsonl", leave_out)(run)


def a_snapshot_leaves_out_a_member(run: Path) -> None:
    _leave_out(run, 1, "snapshot")


def a_shutdown_leaves_out_a_member(run: Path) -> None:
    _leave_out(run, 2, "shutdown")


def a_member_is_never_suspended_and_left_out(run: Path) -> None:
    _leave_out(run, 0, "suspend", "resume")

    def go_on(lines: list[dict[str, Any]]) -> None:
        lines[:] = [line for line in lines if "SUSPENDED" not in (line.get("old"), line.get("new"))]

    _rewrite(run, "member-0/trace.jsonl", go_on)


def a_module_is_suspended_that_nothing_suspends(run: Path) -> None:
    def suspend(lines: list[dict[str, Any]]) -> None:
        last = lines[-1]
        head = {name: last[name] for name in ("ts", "epoch_ms", "member", "component", "pid")}
        lines.append({**head, "event": "module_state", "old": "ACTIVE", "new": "SUSPENDED"})

    _forged("member-1/trace.jsonl", suspend)(run)


def _with_manifest(**fields: object) -> Callable[[Path], None]:
    def damage(run: Path) -> None:
        _unseal(run)
        _put(run, **fields)

    return damage


def the_run_is_said_to_be_of_another_seed(run: Path) -> None:
    _with_manifest(seed=77)(run)


def the_members_are_said_to_have_a_ledger(run: Path) -> None:
    _with_manifest(service="ledger")(run)


def the_members_are_said_to_have_a_second_service(run: Path) -> None:
    _with_manifest(more_services=["tally"])(run)


def the_load_is_said_to_have_two_keys(run: Path) -> None:
    _with_manifest(workload={"seed": 1, "keys": 2})(run)


def no_answer_names_its_session(run: Path) -> None:
    _forged("history.jsonl", lambda lines: [line.pop("session", None) for line in lines] and None)(run)


def a_session_has_an_end_and_no_beginning(run: Path) -> None:
    _forged("sessions.jsonl", lambda lines: lines.append({**lines[0], "session": 400}))(run)


def _not_proved(damage: Callable[[Path], None], scenario: str, *says: str) -> BadRun:
    return BadRun(scenario, damage, Promise.ADMIN_COMMANDS_PROVED, says, Verdict.UNKNOWN)


def _not_bound(damage: Callable[[Path], None], *says: str, verdict: Verdict = Verdict.INVALID) -> BadRun:
    return BadRun(_KILLED, damage, Promise.EVIDENCE_BOUND, says, verdict)


ADMIN: tuple[BadRun, ...] = (
    _not_proved(the_first_snapshot_is_not_written_down, _COMMANDS, f"snapshot at position {FIRST_SNAPSHOT}"),
    _not_proved(the_first_snapshot_and_the_seal_are_gone, _COMMANDS, f"snapshot at position {FIRST_SNAPSHOT}"),
    _not_proved(the_resume_is_not_written_down, _COMMANDS, "orders a resume at position"),
    _not_proved(a_second_suspend_is_written_down, _COMMANDS, "suspend", "no entry"),
    _not_proved(a_follower_is_said_to_have_taken_the_snapshot, _COMMANDS, "controls.jsonl:1", "led at no time"),
    _not_proved(the_suspend_is_said_to_be_over_before, _COMMANDS, "controls.jsonl:2", "became SUSPENDED at"),
    _not_proved(the_snapshot_is_said_to_end_before_it_begins, _COMMANDS, "ended 5 ms before it began"),
    _not_proved(a_member_is_said_to_be_active_after_the_suspend, _COMMANDS, "left member 2 ACTIVE"),
    _not_proved(a_snapshot_leaves_out_a_member, _COMMANDS, "controls.jsonl:1 leaves out member 1, which ran"),
    _not_proved(a_shutdown_leaves_out_a_member, _COMMANDS, "shutdown of controls.jsonl:4 leaves out member 2"),
    _not_proved(a_member_is_never_suspended_and_left_out, _COMMANDS, "controls.jsonl:2 leaves out member 0"),
    _not_proved(a_module_is_suspended_that_nothing_suspends, _KILLED, "member 1 was suspended", "trace.jsonl"),
    _not_bound(the_run_is_said_to_be_of_another_seed, "seed 77", "simulated-1-"),
    _not_bound(the_members_are_said_to_have_a_ledger, "operation id=", "ledger does not know"),
    _not_bound(the_members_are_said_to_have_a_second_service, "member-0/trace.jsonl", "2 services"),
    _not_bound(the_load_is_said_to_have_two_keys, "on key r", "load on 2 keys"),
    _not_bound(no_answer_names_its_session, "without its session", verdict=Verdict.UNKNOWN),
    _not_bound(a_session_has_an_end_and_no_beginning, "session 400"),
)
