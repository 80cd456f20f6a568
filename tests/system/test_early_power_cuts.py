"""Power cuts in the first moments of a log: what the recording log names is there at the next start."""

from random import Random

import pytest

from support.fault_cases import drive, fault_of
from support.system_world import System
from upheaval_node.settings import profile_settings


@pytest.mark.parametrize("seed", [14, 18, 31, 44])
def test_members_start_again_after_a_power_cut_as_their_log_begins(seed: int) -> None:
    system = System(seed=seed, settings=profile_settings("test", sync_level=1))
    members = system.cluster.members
    system.until(lambda: any(member.disk.has("archive/0-0.rec") for member in members), "log that begins")
    system.run_for(Random(seed).random() * 0.004)
    driver = drive(system.cluster)
    driver.begin("dark", fault_of("power-cut all"))
    driver.end("dark")
    assert system.leader() in (0, 1, 2)
