"""Edits of the run's description of itself: the manifest, and the configurations of its members."""

import shutil
from collections.abc import Callable
from typing import Any

from upheaval.checkers.promises import Promise
from upheaval.tamper.edit import applied_by, edit
from upheaval.tamper.run_copy import CONTROLS, FAULTS, SCENARIO, Line, RunCopy, need, remove
from upheaval_node.types import S


def _put(run: RunCopy, **fields: object) -> None:
    with run.manifest() as manifest:
        manifest.update(fields)


def _converge(run: RunCopy, change: Callable[[Line], None]) -> None:
    with run.manifest() as manifest:
        need(manifest["converge"], "no converge phase")
        change(manifest["converge"])


def the_run_converged_before_it_began(run: RunCopy) -> None:
    """The converge phase at time 1."""
    _converge(run, lambda converge: converge.update(completed_ns=1))


def the_run_converged_an_hour_later(run: RunCopy) -> None:
    """The converge phase an hour later."""
    _converge(run, lambda converge: converge.update(completed_ns=converge["completed_ns"] + 3600 * S))


def the_run_did_not_converge(run: RunCopy) -> None:
    """No converge phase."""
    _put(run, converge=None)


@applied_by(_converge)
def the_final_positions_are_lower(converge: Line) -> None:
    """All final positions, 960 bytes lower."""
    for final in converge["members"]:
        final["append_position"] -= 960
        final["commit_position"] -= 960


def the_final_position_of_a_member_is_lower(run: RunCopy) -> None:
    """One final position."""
    _converge(run, lambda converge: converge["members"][-1].update(append_position=96, commit_position=96))


@applied_by(_converge)
def the_final_term_is_earlier(converge: Line) -> None:
    """The final term, one lower."""
    need(converge["members"][0]["leadership_term_id"], "one term")
    for final in converge["members"]:
        final["leadership_term_id"] -= 1


@applied_by(_converge)
def the_final_term_is_later(converge: Line) -> None:
    """The final term, one higher."""
    for final in converge["members"]:
        final["leadership_term_id"] += 1


def a_member_is_left_out(run: RunCopy) -> None:
    """A member less, and no folder of it."""
    count = len(run.members)
    need(count > 1, "a single member")
    shutil.rmtree(run.folder.member(count - 1).path)
    with run.manifest() as manifest:
        manifest["members"] = count - 1
        manifest["converge"]["members"].pop()


def there_are_more_members(run: RunCopy) -> None:
    """Two members more."""
    _put(run, members=len(run.members) + 2)


def _need_configurations(run: RunCopy) -> None:
    """Raise `Lacking` without configurations: then nothing else in the folder says how its members were configured."""
    need((run.folder.member(run.members[0]).path / "config.json").exists(), "no configurations of members")


def files_were_synced_less(run: RunCopy) -> None:
    """Sync level 0.

    At sync level 0 a power cut excuses many losses.
    """
    _need_configurations(run)
    _put(run, sync_level=0)


def files_were_synced_more(run: RunCopy) -> None:
    """Sync level 2."""
    _need_configurations(run)
    _put(run, sync_level=2)


def the_members_had_another_profile(run: RunCopy) -> None:
    """The profile `aeron`."""
    _put(run, profile="aeron")


def the_members_had_long_time_outs(run: RunCopy) -> None:
    """Time-outs of 30 s."""
    _put(run, timeouts={"leader_heartbeat_ns": 30 * S, "election_ns": 30 * S})


def sessions_had_a_long_time_out(run: RunCopy) -> None:
    """A session time-out of 1,000 s."""
    _need_configurations(run)
    _put(run, timeouts={"session_ns": 1000 * S})


def sessions_had_a_short_time_out(run: RunCopy) -> None:
    """A session time-out of 10 ms."""
    _need_configurations(run)
    _put(run, timeouts={"session_ns": S // 100})


def the_members_had_another_service(run: RunCopy) -> None:
    """Another service."""
    with run.manifest() as manifest:
        manifest["service"] = "ledger" if manifest["service"] != "ledger" else "workbench"


def the_members_had_another_service_beside(run: RunCopy) -> None:
    """A second service."""
    with run.manifest() as manifest:
        manifest["more_services"] = ["tally"] if not manifest["more_services"] else []


def the_members_were_split(run: RunCopy) -> None:
    """`components` split."""
    _put(run, components="split")


def the_members_were_another_system(run: RunCopy) -> None:
    """Members of Aeron.

    Traces of Aeron's members have no messages.
    """
    _put(run, system="aeron:1.49.0")


def the_run_had_another_seed(run: RunCopy) -> None:
    """Another seed."""
    with run.manifest() as manifest:
        need(manifest["seed"] is not None, "no seed")
        manifest["seed"] += 1


def the_run_has_another_name(run: RunCopy) -> None:
    """Another run id."""
    _need_configurations(run)
    with run.manifest() as manifest:
        manifest["run_id"] = "another"


def the_run_was_made_otherwise(run: RunCopy) -> None:
    """Another runtime."""
    with run.manifest() as manifest:
        manifest["runtime"] = "process" if manifest["runtime"] != "process" else "simulated"


def the_load_was_another(run: RunCopy) -> None:
    """Another load."""
    with run.manifest() as manifest:
        need(manifest["workload"].get("rate"), "no load")
        manifest["workload"].update(rate=1, slots=1, sessions=1, keys=1)


def no_fault_was_planned_and_none_is_there(run: RunCopy) -> None:
    """No planned faults, and no faults.jsonl."""
    need(run.lines(FAULTS), "no fault")
    _put(run, planned_faults=[])
    (run.path / FAULTS).unlink()


def no_command_was_planned_and_none_is_there(run: RunCopy) -> None:
    """No planned commands, and no controls.jsonl."""
    need(run.lines(CONTROLS), "no command")
    _put(run, planned_commands=[])
    (run.path / CONTROLS).unlink()


def the_scenario_is_gone(run: RunCopy) -> None:
    """The text of the scenario."""
    remove(run.path / SCENARIO, f"no {SCENARIO}")


def the_run_demands_less(run: RunCopy) -> None:
    """A demanded promise less in the manifest."""
    with run.manifest() as manifest:
        need(manifest["demanded"], "no demanded promise")
        manifest["demanded"].pop()


def the_scenario_demands_less(run: RunCopy) -> None:
    """A demanded promise less in the scenario."""
    path = run.path / SCENARIO
    need(path.exists(), f"no {SCENARIO}")
    lines = path.read_text(encoding="utf-8").split("\n")
    places = [at for at, line in enumerate(lines) if line.startswith("promise ")]
    need(places, "no demanded promise")
    path.write_text("\n".join([*lines[: places[-1]], *lines[places[-1] + 1 :]]), encoding="utf-8")


# --- configurations ---


def _configure(run: RunCopy, change: Callable[[dict[str, Any]], None], *, everywhere: bool = False) -> None:
    members = list(run.members) if everywhere else [run.members[-1]]
    for member in members:
        with run.changing_object(f"member-{member}/config.json") as config:
            change(config)


def a_member_was_configured_to_sync_less(run: RunCopy) -> None:
    """Sync level 0 in one configuration."""
    _configure(run, lambda config: config.update(sync_level=0))


def all_members_were_configured_to_sync_less(run: RunCopy) -> None:
    """Sync level 0 in all configurations."""
    _configure(run, lambda config: config.update(sync_level=0), everywhere=True)


def a_member_was_configured_with_another_service(run: RunCopy) -> None:
    """The service in one configuration."""
    _configure(run, lambda config: config.update(service=["ledger"]))


def a_member_was_configured_with_another_profile(run: RunCopy) -> None:
    """The profile in one configuration."""
    _configure(run, lambda config: config.update(profile="aeron"))


def a_member_was_configured_with_other_time_outs(run: RunCopy) -> None:
    """A time-out in one configuration."""
    _configure(run, lambda config: config["settings"].update(leader_heartbeat_ns=60 * S))


def a_member_was_configured_as_another_one(run: RunCopy) -> None:
    """The member id in one configuration."""
    need(len(run.members) > 1, "a single member")
    _configure(run, lambda config: config.update(member_id=0))


def a_member_was_configured_with_other_members(run: RunCopy) -> None:
    """The members in one configuration."""
    _configure(run, lambda config: config.update(members=config["members"].split("|")[-1]))


def a_member_was_configured_for_another_run(run: RunCopy) -> None:
    """The run id in one configuration."""
    _configure(run, lambda config: config.update(run_id="another"))


def a_configuration_is_gone(run: RunCopy) -> None:
    """One configuration."""
    folder = run.last_member
    remove(folder.path / "config.json", f"no {folder.path.name}/config.json")


_CONVERGED = (Promise.RUN_CONVERGED, Promise.FINAL_POSITIONS)
_BOUND = Promise.EVIDENCE_BOUND
_COMPLETE = Promise.EVIDENCE_COMPLETE

MANIFEST_EDITS = (
    edit(the_run_converged_before_it_began, *_CONVERGED, _BOUND),
    edit(the_run_converged_an_hour_later, *_CONVERGED, _BOUND),
    edit(the_run_did_not_converge, *_CONVERGED),
    edit(the_final_positions_are_lower, *_CONVERGED),
    edit(the_final_position_of_a_member_is_lower, *_CONVERGED),
    edit(the_final_term_is_earlier, *_CONVERGED, _BOUND, _COMPLETE),
    edit(the_final_term_is_later, *_CONVERGED, _BOUND, _COMPLETE),
    edit(a_member_is_left_out, _COMPLETE, _BOUND, *_CONVERGED),
    edit(there_are_more_members, _COMPLETE, *_CONVERGED),
    edit(files_were_synced_less, _BOUND),
    edit(files_were_synced_more, _BOUND),
    edit(the_members_had_another_profile, _BOUND, Promise.BOUNDS_KEPT),
    edit(the_members_had_long_time_outs, _BOUND, Promise.BOUNDS_KEPT),
    edit(sessions_had_a_long_time_out, _BOUND, Promise.CLIENTS_IN_TIME),
    edit(sessions_had_a_short_time_out, _BOUND, Promise.CLIENTS_IN_TIME),
    edit(the_members_had_another_service, _BOUND, Promise.LINEARIZABLE, Promise.SNAPSHOT_IS_REPLAY),
    edit(the_members_had_another_service_beside, _BOUND, _COMPLETE),
    edit(the_members_were_split, _BOUND, _COMPLETE),
    edit(the_members_were_another_system, _BOUND, _COMPLETE, Promise.VOTES_KEPT),
    edit(the_run_had_another_seed, _BOUND),
    edit(the_run_has_another_name, _BOUND),
    edit(the_run_was_made_otherwise, _BOUND, _COMPLETE),
    edit(the_load_was_another, _BOUND, Promise.CLIENTS_IN_ORDER),
    edit(
        no_fault_was_planned_and_none_is_there,
        Promise.NO_UNEXPLAINED_END,
        Promise.FAULTS_PROVED,
        _COMPLETE,
        Promise.LEADER_FOUND,
    ),
    edit(
        no_command_was_planned_and_none_is_there,
        Promise.ADMIN_COMMANDS_PROVED,
        Promise.NO_UNEXPLAINED_END,
        Promise.SNAPSHOT_IS_REPLAY,
        _COMPLETE,
    ),
    edit(the_scenario_is_gone, _BOUND, _COMPLETE, Promise.ADMIN_COMMANDS_PROVED),
    edit(the_run_demands_less, _BOUND),
    edit(the_scenario_demands_less, _BOUND),
    edit(a_member_was_configured_to_sync_less, _BOUND),
    edit(all_members_were_configured_to_sync_less, _BOUND),
    edit(a_member_was_configured_with_another_service, _BOUND),
    edit(a_member_was_configured_with_another_profile, _BOUND),
    edit(a_member_was_configured_with_other_time_outs, _BOUND),
    edit(a_member_was_configured_as_another_one, _BOUND),
    edit(a_member_was_configured_with_other_members, _BOUND),
    edit(a_member_was_configured_for_another_run, _BOUND),
    edit(a_configuration_is_gone, _COMPLETE, _BOUND),
)
