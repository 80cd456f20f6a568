"""Fault schedules: plain values drawn from the seed."""

import itertools
from random import Random

import pytest

from upheaval.runtimes.simulated.faults import FaultKind, draw_schedule
from upheaval.runtimes.simulated.runner import Runner, RunSettings
from upheaval_node.types import S


def test_one_seed_gives_one_schedule() -> None:
    def draw(seed: int) -> object:
        return draw_schedule(Random(seed), members=3, count=10, sync_level=1, overlapping=True)

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)


@pytest.mark.parametrize("overlapping", [True, False])
def test_faults_overlap_only_when_they_are_meant_to(overlapping: bool) -> None:
    schedule = draw_schedule(Random(1), members=3, count=50, sync_level=1, overlapping=overlapping)
    pairs = itertools.pairwise(schedule)
    assert any(a.start_ns + a.duration_ns > b.start_ns for a, b in pairs) == overlapping


def test_every_kind_is_drawn_and_power_is_only_cut_where_it_is_promised_to_be_survived() -> None:
    drawn = {
        level: {
            fault.kind for fault in draw_schedule(Random(1), members=3, count=300, sync_level=level, overlapping=False)
        }
        for level in (0, 1)
    }
    assert drawn[1] == set(FaultKind)
    assert drawn[1] - drawn[0] == {FaultKind.POWER_CUT, FaultKind.POWER_CUT_ALL}


@pytest.mark.parametrize("members", [1, 3])
def test_every_kind_of_fault_can_be_done_and_healed(members: int) -> None:
    runner = Runner(1, RunSettings(members=members, faults=0))
    cluster = runner.cluster
    cluster.start_all()
    cluster.wait_until_leader()
    template = draw_schedule(Random(1), members=members, count=1, sync_level=1, overlapping=False)[0]
    for kind in FaultKind:
        fault = type(template)(kind, start_ns=0, duration_ns=S, member=0, other=members - 1)
        runner.do_faults([fault])
        cluster.wait_until_leader()
    cluster.heal_everything()
    assert cluster.converge().reached
    assert [record.what for record in cluster.faults] == [kind.value for kind in FaultKind]
    assert all(record.heal_end_ns is not None and record.is_proved and record.heal_proof for record in cluster.faults)
