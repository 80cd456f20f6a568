"""A leader whose driver looks up the name of a client too slowly: its service opens a session without knowing it."""

from pathlib import Path
from typing import Final

import pytest

from upheaval.checkers.judge import verify_run
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Verdict
from upheaval.cli.main import main

HERE: Final = Path(__file__).resolve().parents[1] / "support" / "java_launchers"
LAUNCHER: Final = f"java -cp {{aeron}} {HERE / 'SlowName.java'}"
OPTIONS: Final = "-Xmx128m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"


@pytest.mark.heavy
@pytest.mark.nightly
@pytest.mark.parametrize("version", ["1.49.3", "1.51.0"])
def test_the_service_of_a_leader_lacks_a_session_that_its_driver_opened_too_slowly(
    version: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    system = ["--runtime", "process", "--system", f"aeron:{version}", "--launcher", LAUNCHER, f"--jvm={OPTIONS}"]
    scenario = str(HERE / "slow-name.scenario")
    assert main(["run", scenario, *system, "--dir", str(run)]) == Verdict.INVALID.exit_status
    finding = verify_run(run).finding(Promise.SNAPSHOT_IS_REPLAY)
    assert finding.verdict is Verdict.INVALID
    error = finding.errors[0]
    assert "DriverTimeoutException" in error.text
    assert "ClusteredServiceAgent.onSessionOpen" in error.traceback
