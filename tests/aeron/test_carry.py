"""A failure of our node with Aeron's rules, in the simulation and on members of Aeron."""

import json
from pathlib import Path

import pytest

from upheaval.cli.main import main
from upheaval_chaos.exit_status import CommandStatus


@pytest.mark.nightly
def test_a_simulated_failure_is_tried_on_members_of_aeron(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    simulated = ["--runtime", "simulated", "--compatibility", "E7", "--dir", str(run)]
    assert main(["run", "aeron-old-tail", *simulated]) == CommandStatus.BROKEN
    capsys.readouterr()
    status = main(["carry", str(run), "--system", "aeron", "--tries", "2", "--out", str(tmp_path / "out"), "--json"])
    done = json.loads(capsys.readouterr().out)
    assert done["fingerprint"]["promise"] == "commits-kept"
    assert "compatibility" not in done["scenario"]
    assert done["tries"] == done["broken"] + sum(done["prevented"].values()) == 2
    # Whether the old leader is heard in time depends on the machine.
    assert status == (CommandStatus.BROKEN if done["broken"] else CommandStatus.UNKNOWN)
    assert all((tmp_path / "out" / f"try-{number}" / "manifest.json").is_file() for number in (1, 2))
