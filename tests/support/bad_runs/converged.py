"""Runs that say when and how they ended, or what they were, otherwise than all else shows.

In `leader-killed` member 0 is killed and started again; in `snapshot-and-restart` all members end by an admin command
and are started again.
"""

import json
from collections.abc import Callable
from pathlib import Path

from support.bad_runs.bad_run import BadRun
from support.bad_runs.files import edit_lines, edit_object
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_KILLED, _ENDED = "leader-killed", "snapshot-and-restart"


def _complete(run: Path, ns: int) -> None:
    def change(fields: dict[str, object]) -> None:
        converge = fields["converge"]
        assert isinstance(converge, dict)
        converge["completed_ns"] = ns

    edit_object(run / "manifest.json", change)


def _last_ns(run: Path, file: str, name: str) -> int:
    return max(json.loads(line)[name] or 0 for line in (run / file).read_text().splitlines())


def it_converged_at_time_one(run: Path) -> None:
    _complete(run, 1)


def it_converged_before_the_last_operations(run: Path) -> None:
    _complete(run, _last_ns(run, "history.jsonl", "invoke_ns") - 1)


def it_converged_after_all_members_had_ended(run: Path) -> None:
    lines = (run / "member-1" / "trace.jsonl").read_text().splitlines()
    head = {
        name: value for name, value in json.loads(lines[-1]).items() if name in ("ts", "member", "component", "pid")
    }
    with (run / "member-1" / "trace.jsonl").open("a") as trace:
        trace.write(json.dumps({**head, "event": "process-end", "status": 0}) + "\n")
    _complete(run, head["ts"] + 1)


def it_converged_while_a_fault_went_on(run: Path) -> None:
    end = json.loads((run / "manifest.json").read_text())["converge"]["completed_ns"]

    def move(fields: dict[str, object]) -> bool:
        fields.update(what="pause", heal_begin_ns=end + 5_000_000, heal_end_ns=end + 5_000_000)
        return True

    edit_lines(run / "faults.jsonl", move)


# --- the end of a cluster that is started again ---


def _edit_trace(run: Path, member: int, change: Callable[[dict[str, object]], object]) -> None:
    def edit(fields: dict[str, object]) -> bool:
        change(fields)
        return True

    edit_lines(run / f"member-{member}" / "trace.jsonl", edit)


def _end_of(run: Path, member: int) -> dict[str, object]:
    lines = (run / f"member-{member}" / "trace.jsonl").read_text().splitlines()
    return next(fields for line in lines if (fields := json.loads(line))["event"] == "cluster-end")


def a_member_begins_again_with_more_log_than_it_ended_with(run: Path) -> None:
    _begin_again(run, 1, 96)


def a_member_begins_again_with_less_log_than_it_ended_with(run: Path) -> None:
    _begin_again(run, 2, -64)


def _begin_again(run: Path, member: int, more: int) -> None:
    end = _end_of(run, member)
    at, ended = end["log_position"], end["ts"]
    assert isinstance(at, int)
    assert isinstance(ended, int)

    def change(fields: dict[str, object]) -> None:
        ts = fields["ts"]
        assert isinstance(ts, int)
        if fields["event"] == "election_state" and ts > ended and fields["append_position"] == at:
            fields["append_position"] = at + more

    _edit_trace(run, member, change)


def a_member_ended_long_before_it_was_ordered_to(run: Path) -> None:
    def change(fields: dict[str, object]) -> None:
        if fields["event"] == "cluster-end":
            fields["ts"] = 1_000_000

    _edit_trace(run, 0, change)


def a_member_that_is_started_again_did_not_end(run: Path) -> None:
    edit_lines(run / "member-2" / "trace.jsonl", lambda fields: fields["event"] != "cluster-end")


# --- configurations ---


def _configure(run: Path, change: Callable[[list[dict[str, object]]], object]) -> None:
    """As the process runtime does it; then some differ."""
    manifest = json.loads((run / "manifest.json").read_text())
    members = "|".join(f"{member},localhost:{9000 + member}" for member in range(manifest["members"]))
    found: list[dict[str, object]] = [
        {
            "member_id": member,
            "run_id": manifest["run_id"],
            "members": members,
            "service": [manifest["service"], *manifest["more_services"]],
            "profile": manifest["profile"],
            "sync_level": manifest["sync_level"],
            "settings": {"cluster": {"timeouts": manifest["timeouts"]}},
        }
        for member in range(manifest["members"])
    ]
    change(found)
    for member, fields in enumerate(found):
        (run / f"member-{member}" / "config.json").write_text(json.dumps(fields))


def configurations_are_those_of_the_manifest(run: Path) -> None:
    """No bad run."""
    _configure(run, lambda _: None)


def a_member_syncs_otherwise(run: Path) -> None:
    _configure(run, lambda found: found[1].update(sync_level=7))


def a_member_has_another_profile(run: Path) -> None:
    _configure(run, lambda found: found[0].update(profile="aeron"))


def a_member_has_another_service(run: Path) -> None:
    _configure(run, lambda found: found[2].update(service=["ledger"]))


def a_member_has_other_time_outs(run: Path) -> None:
    _configure(run, lambda found: found[1].update(settings={"cluster": {"timeouts": {"session_ns": 5}}}))


def a_member_knows_fewer_members(run: Path) -> None:
    _configure(run, lambda found: found[1].update(members="0,localhost:9000|1,localhost:9001"))


def a_member_admits_more_sessions(run: Path) -> None:
    _configure(run, lambda found: found[1].update(settings={"cluster": {"max_sessions": 50}}))


def a_member_knows_other_members(run: Path) -> None:
    _configure(run, lambda found: found[2].update(members="0,elsewhere:1|1,elsewhere:2|2,elsewhere:3"))


def the_cluster_syncs_otherwise(run: Path) -> None:
    (run / "cluster.json").write_text(json.dumps({"sync_level": 7}))


def the_cluster_has_another_service(run: Path) -> None:
    (run / "cluster.json").write_text(json.dumps({"service": "ledger"}))


def _converged(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(_KILLED, damage, Promise.RUN_CONVERGED, says, Verdict.UNKNOWN)


def _ends(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(_ENDED, damage, Promise.ENDS_AT_ONE_POSITION, says)


def _bound(damage: Callable[[Path], None], *says: str) -> BadRun:
    return BadRun(_KILLED, damage, Promise.EVIDENCE_BOUND, says)


CONVERGED = (
    _converged(
        it_converged_at_time_one, "last seen at 0 ms, at position", "no trace shows more than -1 committed by then"
    ),
    _converged(it_converged_before_the_last_operations, "no trace shows more than", "committed by then"),
    _converged(it_converged_after_all_members_had_ended, "when member 1 did not run: it ran from"),
    _converged(it_converged_while_a_fault_went_on, "while pause of member-0 went on", "healed from"),
    _ends(a_member_begins_again_with_more_log_than_it_ended_with, "member 1, which ended at", "with a log up to"),
    _ends(a_member_begins_again_with_less_log_than_it_ended_with, "member 2, which ended at", "with a log up to"),
    _ends(a_member_ended_long_before_it_was_ordered_to, "member 0, which ended at", "did so at 1 ms: the shutdown"),
    _ends(a_member_that_is_started_again_did_not_end, "member 2 did not end with the others at"),
    _bound(a_member_syncs_otherwise, "member-1/config.json has sync_level 7, manifest.json "),
    _bound(a_member_has_another_profile, "member-0/config.json has profile aeron, manifest.json test"),
    _bound(a_member_has_another_service, 'member-2/config.json has service ["ledger"], manifest.json ["workbench"]'),
    _bound(a_member_has_other_time_outs, 'member-1/config.json has timeouts {"session_ns": 5}, manifest.json {}'),
    _bound(a_member_admits_more_sessions, "member-1/config.json has max_sessions 50, manifest.json 0"),
    _bound(a_member_knows_fewer_members, "member-1/config.json has members 2, manifest.json 3"),
    _bound(a_member_knows_other_members, "member-2/config.json has members 0,elsewhere:1|", "that of member-0"),
    _bound(the_cluster_syncs_otherwise, "cluster.json has sync_level 7, manifest.json "),
    _bound(the_cluster_has_another_service, "cluster.json has service ledger, manifest.json workbench"),
)
