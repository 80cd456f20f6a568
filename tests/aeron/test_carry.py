"""A failure of our node with Aeron's rules, in the simulation and on members of Aeron."""

import json
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval_chaos.exit_status import CommandStatus

OLD_TAIL = """\
title A leader without a quorum counts the log of an earlier one that it does not have
cluster members=3 compatibility=E7
workload rate=300 slots=600 sessions=3
wait operations 100
inject unheard blackhole clients <-> followers
inject alone blackhole leader <-> followers
wait leader other-than alone
begin apart blackhole leader <-> follower!alone
end unheard
wait moment after-ms=400
end alone
wait moment after-ms=300
inject dead kill victim!apart
wait leader other-than dead
heal dead
heal apart
wait caught-up dead
wait operations 50
"""


@pytest.mark.nightly
def test_a_simulated_failure_is_tried_on_members_of_aeron(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scenario, run = tmp_path / "old-tail.scenario", tmp_path / "run"
    scenario.write_text(OLD_TAIL)
    simulated = ["--runtime", "simulated", "--dir", str(run)]
    assert main(["run", str(scenario), *simulated]) == CommandStatus.BROKEN
    capsys.readouterr()
    status = main(["carry", str(run), "--system", "aeron", "--tries", "2", "--out", str(tmp_path / "out"), "--json"])
    done = json.loads(capsys.readouterr().out)
    assert done["fingerprint"]["promise"] == "commits-kept"
    assert "compatibility" not in done["scenario"]
    assert done["tries"] == done["broken"] + sum(done["prevented"].values()) == 2
    # Whether the old leader is heard in time depends on the machine.
    assert status == (CommandStatus.BROKEN if done["broken"] else CommandStatus.UNKNOWN)
    assert all((tmp_path / "out" / f"try-{number}" / "manifest.json").is_file() for number in (1, 2))
