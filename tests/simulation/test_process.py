"""The duty cycle of a simulated process."""

import pytest

from simulation.parties import Beacon, Failing, Passive, Spinning, running
from upheaval.runtimes.simulated.world import START_NS, World
from upheaval_node.bell import Bell
from upheaval_node.errors import StorageError, TerminationError
from upheaval_node.types import MS, Now


def test_an_agent_runs_at_its_deadlines_and_not_between() -> None:
    world = World(1)
    beacon = Beacon(10 * MS)
    process = running(world, [beacon])
    world.run_for(100 * MS)
    assert beacon.times == [START_NS + step * 10 * MS for step in range(11)]
    assert process.cycles == 11


def test_posted_input_runs_in_the_loop_a_moment_later() -> None:
    world = World(1)
    process = running(world, [Passive()])
    ran: list[int] = []
    world.after(MS, lambda: process.post(lambda: ran.append(world.now_ns)))
    world.run_for(2 * MS)
    assert len(ran) == 1
    assert 0 <= ran[0] - START_NS - MS < MS


def test_a_dead_process_runs_nothing() -> None:
    world = World(1)
    beacon = Beacon(10 * MS)
    process = running(world, [beacon])
    world.run_for(15 * MS)
    process.kill()
    process.post(lambda: beacon.times.append(0))
    world.run_for(100 * MS)
    assert len(beacon.times) == 2


def test_a_paused_process_keeps_its_input_and_knows_how_long_it_stalled() -> None:
    world = World(1)
    beacon = Beacon(10 * MS)
    process = running(world, [beacon])
    world.run_for(15 * MS)
    process.pause()
    seen: list[int] = []
    process.post(lambda: seen.append(1))
    world.run_for(100 * MS)
    assert len(beacon.times) == 2
    assert seen == []
    process.resume()
    world.run_for(MS)
    assert len(beacon.times) == 3
    assert seen == [1]
    assert process.longest_stall_ns == 100 * MS


def test_a_defect_ends_the_process_and_is_kept_and_an_orderly_end_is_none() -> None:
    world = World(1)
    broken = running(world, [Failing(ValueError("defect"), START_NS + MS)])
    ended = running(world, [Failing(TerminationError("done", expected=True), START_NS + MS)])
    failed = running(world, [Failing(TerminationError("no disk", expected=False), START_NS + MS)])
    world.run_for(2 * MS)
    assert not any(process.alive for process in (broken, ended, failed))
    assert str(broken.failure) == "defect"
    assert ended.failure is None
    assert str(failed.failure) == "no disk"


def test_an_agent_that_is_always_due_does_not_stop_the_clock() -> None:
    world = World(1)
    process = running(world, [Spinning()])
    world.run_for(10 * MS)
    assert world.now_ns == START_NS + 10 * MS
    assert process.cycles > 100


@pytest.mark.parity("OC-01")
def test_the_wall_clock_of_a_process_can_be_skewed_without_its_monotonic_one() -> None:
    world = World(1)
    process = running(world, [Passive()])
    true = process.now()
    process.clock_skew_ms = -5000
    skewed = process.now()
    assert (skewed.ns, skewed.epoch_ms) == (true.ns, true.epoch_ms - 5000)


class Rung(Passive):
    """A passive agent with a bell that counts its turns."""

    def __init__(self) -> None:
        self.bell = Bell()
        self.turns = 0

    def do_work(self, now: Now) -> int:
        self.turns += 1
        return 0


def test_an_agent_with_a_bell_is_only_called_when_it_was_rung_for() -> None:
    world = World(1)
    rung, other = Rung(), Rung()
    process = running(world, [rung, other])
    world.run_for(MS)
    turns = rung.turns, other.turns

    def ring() -> None:
        rung.bell.rung = True

    process.deliver(ring)
    world.run_for(MS)
    assert (rung.turns, other.turns) == (turns[0] + 1, turns[1])
    process.post(lambda: None)
    world.run_for(MS)
    assert (rung.turns, other.turns) == (turns[0] + 2, turns[1] + 1)


def test_who_watches_cycles_sees_the_one_in_which_the_process_ends_itself_while_it_is_alive() -> None:
    world = World(1)
    process = running(world, [Failing(StorageError("no space left on device"), START_NS + MS)])
    seen: list[bool] = []
    process.on_cycle = lambda: seen.append(process.alive)
    world.run_for(5 * MS)
    assert not process.alive
    assert isinstance(process.failure, StorageError)
    assert len(seen) == process.cycles
    assert all(seen)


class Working(Rung):
    """Does something whenever it is called, and says whether another turn would do more."""

    def __init__(self, *, is_settled: bool) -> None:
        super().__init__()
        self.is_settled = is_settled

    def do_work(self, now: Now) -> int:
        self.bell.is_settled = self.is_settled
        return 1 - super().do_work(now) if self.turns < 3 else 0


def test_an_agent_that_did_something_is_called_again_unless_it_is_settled() -> None:
    world = World(1)
    settled, unsettled = Working(is_settled=True), Working(is_settled=False)
    running(world, [settled, unsettled])
    world.run_for(MS)
    assert (settled.turns, unsettled.turns) == (1, 3)
