"""Runs whose records have a fault at another time than it was there, or at another member."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.bad_runs.bad_run import BadRun
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict

_SECOND = 1_000_000_000
_INJECTED = ("asked_ns", "inject_begin_ns", "inject_end_ns")
_HEALED = ("heal_begin_ns", "heal_end_ns")


def _rewrite(run: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """The first fault, in a run that is not sealed any more."""
    path = run / "faults.jsonl"
    faults = [json.loads(line) for line in path.read_text().splitlines()]
    change(faults[0])
    path.write_text("".join(json.dumps(fault) + "\n" for fault in faults))
    manifest = json.loads((run / "manifest.json").read_text())
    (run / "manifest.json").write_text(json.dumps({**manifest, "sealed": None}))
    (run / "seal.json").unlink()


def _moved(run: Path, seconds: float, names: tuple[str, ...] = (*_INJECTED, *_HEALED)) -> None:
    def move(fault: dict[str, Any]) -> None:
        for name in names:
            fault[name] += int(seconds * _SECOND)

    _rewrite(run, move)


def the_kill_is_said_to_be_earlier_than_the_death(run: Path) -> None:
    _moved(run, -0.7, _INJECTED)


def the_kill_is_said_to_be_later_than_the_death(run: Path) -> None:
    """Over what came of it."""
    _moved(run, 2.5, ("asked_ns", "inject_begin_ns"))


def the_dead_one_is_said_to_have_stayed_down(run: Path) -> None:
    _moved(run, 0.7, _HEALED)


def another_member_is_said_to_be_dead(run: Path) -> None:
    def change(fault: dict[str, Any]) -> None:
        other = (fault["members"][0] + 1) % 3
        fault.update(members=[other], where=f"member-{other}", statement=f"kill member-{other}")

    _rewrite(run, change)


def the_pause_is_said_to_be_earlier(run: Path) -> None:
    _moved(run, -0.7, _INJECTED)


def the_pause_is_said_to_be_longer(run: Path) -> None:
    _moved(run, 0.7, _HEALED)


def another_member_is_said_to_be_paused(run: Path) -> None:
    def change(fault: dict[str, Any]) -> None:
        other = (fault["members"][0] + 1) % 3
        fault.update(members=[other], where=f"member-{other}", statement=f"pause member-{other}")

    _rewrite(run, change)


def the_cut_is_said_to_be_earlier(run: Path) -> None:
    _moved(run, -0.7, _INJECTED)


def the_cut_is_said_to_be_longer(run: Path) -> None:
    _moved(run, 1.5, _HEALED)


def other_links_are_said_to_be_cut(run: Path) -> None:
    def change(fault: dict[str, Any]) -> None:
        first, *others = sorted(fault["members"], key=lambda member: member == fault["members"][0])
        fault["links"] = [f"{a}->{b}" for other in others for a, b in ((first, other), (other, first))]
        fault["where"] = "links " + ", ".join(fault["links"])

    _rewrite(run, change)


def a_partition_is_said_of_other_members(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(members=fault["members"][:1]))


def it_is_healed_before_it_begins(run: Path) -> None:
    _moved(run, -20, _HEALED)


def it_ends_before_it_begins(run: Path) -> None:
    _moved(run, -0.001, ("inject_end_ns",))


def it_is_over_after_the_run_converged(run: Path) -> None:
    _moved(run, 3600)


def it_begins_before_the_run(run: Path) -> None:
    _moved(run, -3600, ("asked_ns", "inject_begin_ns"))


def its_proof_names_another_member(run: Path) -> None:
    def change(fault: dict[str, Any]) -> None:
        other = (fault["members"][0] + 1) % 3
        fault["inject_proof"]["evidence"] = f"gone: member-{other}/1"

    _rewrite(run, change)


def the_kill_is_said_to_be_a_stop(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(what="stop"))


def the_dead_one_is_said_to_be_dead_still(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(heal_begin_ns=None, heal_end_ns=None, heal_proof=None))


def the_kill_is_said_to_be_a_pause_of_a_moment(run: Path) -> None:
    """Of another member, which went on."""

    def change(fault: dict[str, Any]) -> None:
        other = (fault["members"][0] + 1) % 3
        fault.update(what="pause", members=[other], where=f"member-{other}", statement=f"pause member-{other}")
        fault["inject_proof"] = fault["heal_proof"] = {"holds": True, "evidence": "took no turn in 0.3 s"}
        fault.update(heal_begin_ns=fault["inject_end_ns"] + _SECOND // 3)
        fault.update(heal_end_ns=fault["heal_begin_ns"])

    _rewrite(run, change)


def the_cut_is_said_to_be_ordered_for_other_members(run: Path) -> None:
    alone = "member-2"
    _rewrite(run, lambda fault: fault.update(statement=f"blackhole {alone} <-> {alone}"))


def it_came_after_more_operations_than_there_were(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(heal_operations=100_000))


def the_cut_names_no_link(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(links=[]))


def the_cut_names_only_one_of_its_links(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(links=fault["links"][-1:]))


def the_fault_is_said_to_be_of_another_kind(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(what="slow"))


def the_fault_is_said_to_be_of_a_kind_that_is_not_there(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(what="partition", statement=""))


def the_fault_is_said_to_be_drawn_and_of_a_kind_that_is_not_there(run: Path) -> None:
    _rewrite(run, lambda fault: fault.update(what="partition", statement="", is_drawn=True, inject_proof=None))


def the_kill_is_said_to_begin_with_the_process(run: Path) -> None:
    """The injection takes from the start of the run until 0.7 s before the death."""

    def change(fault: dict[str, Any]) -> None:
        trace = run / f"member-{fault['members'][0]}" / "trace.jsonl"
        begin_ns = json.loads(trace.read_text().splitlines()[0])["ts"]
        fault.update(
            asked_ns=begin_ns, inject_begin_ns=begin_ns, inject_end_ns=fault["inject_end_ns"] - 7 * _SECOND // 10
        )

    _rewrite(run, change)


def _contradicted(damage: Callable[[Path], None], scenario: str, *says: str) -> BadRun:
    return BadRun(scenario, damage, Promise.FAULTS_IN_TIME, says, Verdict.UNKNOWN)


_KILLED, _PAUSED, _CUT = "leader-killed", "paused-leader", "leader-isolated-blackhole"
WINDOWS: tuple[BadRun, ...] = (
    _contradicted(the_kill_is_said_to_be_earlier_than_the_death, _KILLED, "'dead'", "wrote a line", "trace.jsonl"),
    _contradicted(the_kill_is_said_to_be_later_than_the_death, _KILLED, "'dead'", "inject_end_ns", "before"),
    _contradicted(the_dead_one_is_said_to_have_stayed_down, _KILLED, "'dead'", "before it was healed"),
    _contradicted(another_member_is_said_to_be_dead, _KILLED, "'dead'", "wrote a line"),
    _contradicted(the_pause_is_said_to_be_earlier, _PAUSED, "'asleep'", "wrote a line"),
    _contradicted(the_pause_is_said_to_be_longer, _PAUSED, "'asleep'", "wrote a line"),
    _contradicted(another_member_is_said_to_be_paused, _PAUSED, "'asleep'", "wrote a line"),
    _contradicted(the_cut_is_said_to_be_earlier, _CUT, "'alone'", "received a message of member"),
    _contradicted(the_cut_is_said_to_be_longer, _CUT, "'alone'", "received a message of member"),
    _contradicted(other_links_are_said_to_be_cut, _CUT, "'alone'", "received a message of member"),
    _contradicted(a_partition_is_said_of_other_members, _CUT, "'alone'", "its links are also of member"),
    _contradicted(it_is_healed_before_it_begins, _CUT, "heal_begin_ns", "before"),
    _contradicted(it_is_healed_before_it_begins, _KILLED, "heal_begin_ns", "before"),
    _contradicted(it_ends_before_it_begins, _PAUSED, "inject_end_ns is 1 ms before"),
    _contradicted(it_is_over_after_the_run_converged, _CUT, "had converged"),
    _contradicted(it_is_over_after_the_run_converged, _PAUSED, "had converged"),
    _contradicted(its_proof_names_another_member, _KILLED, "'dead'", "its proof names a process of member"),
    _contradicted(the_kill_is_said_to_be_a_stop, _KILLED, "'dead'", "recorded no end", "trace.jsonl"),
    _contradicted(the_dead_one_is_said_to_be_dead_still, _KILLED, "'dead'", "it was never healed", "trace.jsonl"),
    _contradicted(the_kill_is_said_to_be_a_pause_of_a_moment, _KILLED, "'dead'", "wrote a line", "trace.jsonl"),
    _contradicted(the_cut_is_said_to_be_ordered_for_other_members, _CUT, "'alone'", "it was ordered as"),
    _contradicted(it_came_after_more_operations_than_there_were, _KILLED, "heal_operations is 100000"),
    _contradicted(it_came_after_more_operations_than_there_were, _CUT, "heal_operations is 100000"),
    _contradicted(the_cut_names_no_link, _CUT, "'alone'", "it names no link"),
    _contradicted(the_cut_names_only_one_of_its_links, _CUT, "'alone'", "it was ordered as", "did not hit link"),
    _contradicted(the_fault_is_said_to_be_of_another_kind, _CUT, "'alone'", "it was ordered as 'blackhole"),
    _contradicted(the_fault_is_said_to_be_of_a_kind_that_is_not_there, _CUT, "there is no such kind of fault"),
    _contradicted(the_fault_is_said_to_be_drawn_and_of_a_kind_that_is_not_there, _KILLED, "no such kind of fault"),
    _contradicted(the_kill_is_said_to_begin_with_the_process, _KILLED, "'dead'", "wrote a line"),
    _contradicted(it_begins_before_the_run, _KILLED, "before the first process"),
)
