"""Java takes Aeron's classes from the archive that the harness made."""

import subprocess
from pathlib import Path

from aeron_jar import JAR
from upheaval.aeron_programs import java_line

CLUSTER_TOOL = "io.aeron.cluster.ClusterTool"
MEMBERS_LOAD = "io.aeron.cluster.service.ClusterMarkFile"


def test_classes_of_the_jar_come_from_the_archive(tmp_path: Path) -> None:
    log = tmp_path / "classes.log"
    options = [f"-Xlog:class+load:file={log}"]
    done = subprocess.run(
        java_line([str(JAR)], CLUSTER_TOOL, str(tmp_path), "pid", options=options),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    (line,) = (line for line in log.read_text(encoding="utf-8").splitlines() if f" {MEMBERS_LOAD} " in line)
    assert "shared objects file" in line
    assert "[cds]" not in done.stdout
