"""A test's cluster on the process runtime: real members on loopback, paused and continued by signals."""

import contextlib
import signal
import time
from dataclasses import replace
from pathlib import Path

from upheaval.cluster import MemberStatus
from upheaval.errors import UsageError
from upheaval.history import HistoryWriter
from upheaval.run_folder import Converge, FaultRecord, RunFolder
from upheaval.runtimes.process import ProcessCluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.runtimes.process_table import FoundProcess, send_signal
from upheaval.testing.backend import Requests
from upheaval.waits import wait_until
from upheaval.workload import LoadCounts, WorkloadSettings
from upheaval_node.client.driver import BlockingClient, NotSent, OutcomeUnknown
from upheaval_node.errors import NodeError

SIGNAL_TIMEOUT_S = 5.0


class ProcessBackend:
    """Implements `backend.Backend`."""

    def __init__(
        self,
        folder: Path,
        *,
        members: int,
        service: str,
        source: Path | None,
        sync_level: int,
        components: str,
        seed: int,
    ) -> None:
        self._cluster = ProcessCluster.create(
            folder, members=members, service=service, source=source, sync_level=sync_level, components=components
        )
        self.run: RunFolder = self._cluster.run
        self.run.write_manifest(replace(self.run.read_manifest(), seed=seed))
        self._paused: dict[int, list[FoundProcess]] = {}

    def up(self, timeout_s: float) -> int:
        return self._cluster.up(timeout_s)

    def status(self) -> list[MemberStatus]:
        return self._cluster.status()

    def leader(self) -> int | None:
        return self._cluster.leader()

    def wait_until_leader(self, timeout_s: float, other_than: int | None) -> int:
        return self._cluster.wait_until_leader(timeout_s, other_than=other_than)

    def wait_until_caught_up(self, member_id: int, timeout_s: float) -> None:
        self._cluster.wait_until_caught_up(member_id, timeout_s)

    # --- faults ---

    def kill(self, member_id: int, component: str | None) -> None:
        self._paused.pop(member_id, None)
        self._cluster.member(member_id).kill(component)

    def stop(self, member_id: int) -> None:
        member = self._cluster.member(member_id)
        if not member.processes():
            raise UsageError(f"member {member_id} is not running: nothing to stop")
        self.resume(member_id)
        begin_ns = time.monotonic_ns()
        member.stop()
        self._note("stop", member_id, begin_ns, "SIGTERM ended its processes")

    def start(self, member_id: int) -> None:
        self._cluster.member(member_id).start()

    def pause(self, member_id: int) -> None:
        found = self._cluster.member(member_id).processes()
        if not found:
            raise UsageError(f"member {member_id} is not running: nothing to pause")
        begin_ns = time.monotonic_ns()
        self._paused[member_id] = found
        send_signal(found, signal.SIGSTOP)
        self._wait_for_state(member_id, found, stopped=True)
        self._note("pause", member_id, begin_ns, "the kernel shows its processes stopped")

    def resume(self, member_id: int) -> None:
        found = self._paused.pop(member_id, None)
        if found is None:
            return
        begin_ns = time.monotonic_ns()
        send_signal(found, signal.SIGCONT)
        self._wait_for_state(member_id, found, stopped=False)
        self._cluster.note_heal(member_id, begin_ns)

    def _note(self, what: str, member_id: int, begin_ns: int, proof: str) -> None:
        record = FaultRecord(what, f"member-{member_id}", begin_ns, time.monotonic_ns(), proof=proof)
        self._cluster.note_fault(member_id, record)

    def _wait_for_state(self, member_id: int, found: list[FoundProcess], *, stopped: bool) -> None:
        wait_until(
            lambda: all(_is_stopped(process.pid) in (stopped, None) for process in found),
            timeout_s=SIGNAL_TIMEOUT_S,
            describe=lambda: f"member {member_id} does not {'stop' if stopped else 'continue'} by a signal",
        )

    # --- clients and the end ---

    def client(self, timeout_s: float) -> Requests:
        return ProcessClient(self._cluster.config.ingress_endpoints(), timeout_s)

    def load(self, settings: WorkloadSettings) -> "HistoryLoad":
        manifest = replace(self.run.read_manifest(), workload=settings.to_json())
        self.run.write_manifest(manifest)
        history = self.run.history_writer()
        load = HistoryLoad(ProcessLoad(self._cluster.config.ingress_endpoints(), history, settings), history)
        load.start()
        return load

    def converge(self, timeout_s: float) -> Converge:
        return self._cluster.converge(timeout_s)

    def down(self) -> None:
        for member_id in list(self._paused):
            # A stopped process would take no notice of the request to end.
            with contextlib.suppress(Exception):
                self.resume(member_id)
        self._cluster.down()


class HistoryLoad:
    """A load in a thread of its own that owns its history file. Implements `backend.RunningLoad`."""

    def __init__(self, load: ProcessLoad, history: HistoryWriter) -> None:
        self._load = load
        self._history = history

    @property
    def counts(self) -> LoadCounts:
        return self._load.counts

    def start(self) -> None:
        self._load.start()

    def wait_until_acknowledged(self, target: int, timeout_s: float) -> None:
        self._load.wait_until_acknowledged(target, timeout_s)

    def finish(self) -> LoadCounts:
        try:
            return self._load.finish()
        finally:
            self._history.close()


class ProcessClient:
    """Requests over real sockets; opens another session when the last one is of no use. Implements `Requests`."""

    def __init__(self, endpoints: dict[int, str], timeout_s: float) -> None:
        self._client = BlockingClient(endpoints, timeout_s, client_name="upheaval test")
        self._is_opened = False

    def request(self, payload: bytes) -> bytes:
        self._require_session()
        try:
            return self._client.request(payload)
        except OutcomeUnknown:
            # A late answer must not be taken for that of the next request.
            self._client.session.close()
            raise

    def close(self) -> None:
        self._client.close()

    def _has_ended(self) -> bool:
        """Ended, or never begun: a session that only looks for the next leader is kept."""
        return not self._is_opened or self._client.session.is_closed

    def _require_session(self) -> None:
        try:
            # One turn, so that a session that ended meanwhile is known to have ended.
            self._client.idle(0)
            if not self._client.is_connected and self._has_ended():
                self._client.reconnect()
                self._is_opened = True
        except NodeError as error:
            raise NotSent(f"no session with the cluster: {error}") from error


def _is_stopped(pid: int) -> bool | None:
    """Whether the kernel holds it stopped; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[0] == "T"
