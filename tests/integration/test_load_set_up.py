"""A load that cannot be set up leaves nothing open."""

from pathlib import Path

import pytest

from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.system import ClusterSpec
from upheaval.waits import wait_until
from upheaval.workload import WorkloadSettings

OPEN_FILES = Path("/proc/self/fd")


def refused(*_: object, **__: object) -> None:
    raise LookupError("no such operation")


def test_a_load_whose_operations_cannot_be_made_closes_what_it_opened(tmp_path: Path) -> None:
    with ProcessCluster.create(tmp_path, ClusterSpec(members=1)) as cluster:
        before = set(OPEN_FILES.iterdir())
        with pytest.raises(LookupError) as failed:
            ProcessLoad(cluster, WorkloadSettings(), make=refused)  # type: ignore[arg-type]
        # The traceback has what was being set up: nothing may depend on its end.
        assert failed.traceback
        # Threads that other tests left open files, too, and close them again.
        wait_until(
            lambda: set(OPEN_FILES.iterdir()) <= before,
            timeout_s=60,
            describe=lambda: f"still open: {sorted(set(OPEN_FILES.iterdir()) - before)}",
        )
