"""Real clusters for integration tests, and the proof that nothing of them is left."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

from upheaval.execution.live import LiveStage
from upheaval.runtimes.ports import cluster_ports, is_free
from upheaval.runtimes.process import ProcessCluster
from upheaval.scenario import Scenario
from upheaval.system.process_table import processes_of, send_signal, wait_until_gone

ROOT = Path(__file__).resolve().parents[2]


def end_without_trace(cluster: ProcessCluster) -> None:
    """End the cluster, and fail unless its processes, ports, sockets and temporary files are gone."""
    foreign = foreign_files(cluster)
    try:
        cluster.down()
    finally:
        rest = processes_of(cluster.config.run_id)
        send_signal(rest, signal.SIGKILL)
        wait_until_gone(rest, cluster.config.run_id)
    assert rest == [], rest
    ports = cluster_ports(cluster.config.base_port, cluster.config.members)
    assert [port for port in ports if not is_free(port)] == []
    assert [path for path in cluster.folder.rglob("*") if path.is_socket()] == []
    assert foreign == [], foreign


def foreign_files(cluster: ProcessCluster) -> list[str]:
    """What the members have open or mapped in shared memory or in the temporary folder, outside of their own.

    The repository may be in the temporary folder itself; one that starts reads its modules there.
    """
    found: set[str] = set()
    for process in processes_of(cluster.config.run_id):
        found.update(_open_files(process.pid))
    places = ("/dev/shm/", "/tmp/", "/var/tmp/")
    own = (cluster.folder, ROOT)
    return sorted(path for path in found if path.startswith(places) and not any(map(Path(path).is_relative_to, own)))


def _open_files(pid: int) -> set[str]:
    found = set()
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            found.add(str(entry.readlink()))
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
            parts = line.split(maxsplit=5)
            if len(parts) == 6:
                found.add(parts[5])
    except OSError:
        # It ended while we looked.
        return set()
    return found


@contextlib.contextmanager
def live_stage(scenario: Scenario, folder: Path) -> Iterator[LiveStage]:
    """A stage on processes, open and under load; it ends without a trace."""
    stage = LiveStage(scenario, "process", 1, folder)
    try:
        stage.open(print)
        yield stage
    finally:
        stage.close()
    end_without_trace(ProcessCluster.open(folder))
