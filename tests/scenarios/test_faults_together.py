"""Several faults at once: of one member, of a member and its links, and of members that turn out to be one."""

from pathlib import Path

import pytest

from support.fault_cases import fault_of
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Report, Verdict
from upheaval.execution.awaited_events import AwaitedEvent
from upheaval.execution.run import run_scenario
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import RunFolder, TraceEvent
from upheaval.scenario import Scenario, WaitSent, parse_scenario
from upheaval_chaos.driver import FaultDriver
from upheaval_chaos.faults import roster_of
from upheaval_chaos.record import FaultRecord

Records = dict[str, FaultRecord]


def scenario_of(*steps: str) -> Scenario:
    lines = ("title several faults", "wait operations 50", *steps, "wait operations 50")
    return parse_scenario("\n".join(lines), name="together", where="together")


def ran(folder: Path, *steps: str) -> tuple[Report, Records]:
    scenario = scenario_of(*steps)
    stage = SimulatedStage(scenario, 1, folder)
    report = run_scenario(scenario, stage, runtime="simulated", seed=1, say=lambda _: None).report
    return report, {fault.name: fault for fault in RunFolder(folder).read_faults()}


ENDED_TOGETHER = (
    ("inject a kill follower", "inject b wipe victim!a", "heal a", "wait caught-up a", "wait seconds 3"),
    ("inject a kill follower", "inject b wipe victim!a", "heal b", "wait caught-up a", "wait seconds 3"),
    ("inject a kill follower", "begin b wipe victim!a", "heal a", "wait caught-up a", "wait seconds 3", "end b"),
    ("inject a stop follower", "inject b power-cut victim!a", "heal a", "wait seconds 3", "heal b"),
    ("inject a pause follower", "inject b kill victim!a", "heal b", "wait caught-up b", "wait seconds 3"),
    ("inject a die-in-change follower", "inject b wipe victim!a", "heal b", "wait seconds 3"),
    ("inject a kill follower", "inject b wipe victim!a", "start", "wait seconds 3"),
)


@pytest.mark.parametrize("steps", ENDED_TOGETHER, ids=" ".join)
def test_a_start_ends_all_faults_that_kept_a_member_down(steps: tuple[str, ...], tmp_path: Path) -> None:
    report, faults = ran(tmp_path, *steps)
    assert report.verdict is Verdict.VALID, report
    a, b = faults["a"], faults["b"]
    assert a.is_proved
    assert b.is_proved
    assert (a.heal_begin_ns, a.heal_end_ns) == (b.heal_begin_ns, b.heal_end_ns)


NOT_ENDED = (
    ("inject a kill follower", "inject b kill follower!a", "heal a", "wait seconds 1"),
    ("inject a disk-full follower", "wait seconds 3", "inject b kill follower!a", "heal b", "wait seconds 1"),
    ("inject a wrong-bytes follower", "inject b wipe follower!a", "heal b", "wait seconds 1"),
)


@pytest.mark.parametrize("steps", NOT_ENDED, ids=" ".join)
def test_a_start_ends_no_other_fault(steps: tuple[str, ...], tmp_path: Path) -> None:
    _, faults = ran(tmp_path, "wait seconds 1", *steps)
    assert faults["a"].heal_begin_ns != faults["b"].heal_begin_ns


def test_a_start_does_not_end_an_end_that_is_still_to_come(opened: SimulatedStage) -> None:
    """The changes of files that the member makes before it dies go on in its next process."""
    records: list[FaultRecord] = []
    driver = FaultDriver(opened, records.append)
    driver.begin("late", fault_of("die-in-change follower changes=100000"))
    (member_id,) = driver.victims("late")
    driver.inject("dead", fault_of(f"kill member-{member_id}"))
    driver.heal("dead")
    assert driver.record_of("late").heal_end_ns is None


CUT_BEFORE = (
    ("inject cut blackhole leader <-> follower", "inject dead kill victim!cut", "wait leader other-than dead"),
    ("inject cut blackhole follower <-> leader", "wait seconds 1", "inject asleep pause victim!cut"),
)
"""Only running members prove that a link is healed."""


@pytest.mark.parametrize("steps", CUT_BEFORE, ids=" ".join)
def test_links_are_healed_when_their_members_run(steps: tuple[str, ...], tmp_path: Path) -> None:
    report, faults = ran(tmp_path, *steps)
    assert report.verdict is Verdict.VALID, report
    assert all(fault.is_proved for fault in faults.values())


BEHIND_A_CUT = ("disk-full victim!cut", "die-in-change victim!cut changes=40")
"""Only a member that writes proves them."""


@pytest.mark.parametrize("fault", BEHIND_A_CUT)
def test_links_of_running_members_are_healed_in_their_turn(fault: str, tmp_path: Path) -> None:
    cut = ("wait seconds 1", "begin cut blackhole follower <-> leader")
    report, faults = ran(tmp_path, *cut, f"begin late {fault}")
    assert report.verdict is Verdict.VALID, report
    assert all(fault.is_proved for fault in faults.values())


ONE_MEMBER = (
    ("inject a blackhole leader -> member-0",),
    ("inject a slow leader -> follower latency-ms=50", "inject b blackhole victim!a -> leader"),
)


@pytest.mark.parametrize("steps", ONE_MEMBER, ids=" ".join)
def test_a_target_that_does_not_exist_because_of_who_leads_is_unknown(steps: tuple[str, ...], tmp_path: Path) -> None:
    report, _ = ran(tmp_path, *steps)
    assert report.verdict is Verdict.UNKNOWN
    assert "have no link between them now" in report.finding(Promise.RUN_ENDED).detail


@pytest.fixture
def opened(tmp_path: Path) -> SimulatedStage:
    stage = SimulatedStage(scenario_of(), 1, tmp_path)
    stage.open(lambda _: None)
    stage.let_pass(0.5)
    return stage


def test_a_message_from_before_a_fault_began_does_not_come_after_it(opened: SimulatedStage) -> None:
    """Links are tried before they are cut, which takes time."""
    driver = FaultDriver(opened, lambda _: None)
    driver.inject("x", fault_of("blackhole leader <-> follower"))
    record = driver.record_of("x")
    assert record.asked_ns is not None
    assert record.asked_ns + 2 < record.inject_begin_ns

    def is_meant(ns: int) -> bool:
        wanted = AwaitedEvent(WaitSent("Vote"), roster_of(opened), driver.victims, driver.last_changed_ns)
        return wanted.is_meant(TraceEvent(0, ns, "send", {"message": "Vote", "member": 0, "to": 1}))

    assert not is_meant(record.inject_begin_ns - 1)
    assert is_meant(record.inject_begin_ns + 1)
    assert driver.last_event_ns == record.asked_ns
