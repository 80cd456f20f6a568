"""A test's cluster of real members: processes on loopback, or containers."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from upheaval.cluster import MemberStatus
from upheaval.errors import UsageError
from upheaval.history import HistoryWriter
from upheaval.run_folder import Converge, RunFolder
from upheaval.runtimes.live import AnyCluster
from upheaval.runtimes.opening import create_cluster
from upheaval.runtimes.process_load import ProcessLoad
from upheaval.testing.backend import Requests
from upheaval.workload import LoadCounts, WorkloadSettings
from upheaval_node.client.driver import BlockingClient, NotSent, OutcomeUnknown
from upheaval_node.errors import NodeError
from upheaval_node.media.resolver import Resolver


class LiveBackend:
    """Implements `backend.Backend`. `options` are those of `opening.create_cluster`."""

    def __init__(self, runtime: str, folder: Path, *, seed: int, **options: Any) -> None:
        self._cluster: AnyCluster = create_cluster(runtime, folder, **options)
        self.run: RunFolder = self._cluster.run
        self.run.write_manifest(replace(self.run.read_manifest(), seed=seed))
        self._paused: set[int] = set()

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
        self._paused.discard(member_id)
        self._cluster.member(member_id).kill(component)

    def stop(self, member_id: int) -> None:
        member = self._cluster.member(member_id)
        if not member.is_running():
            raise UsageError(f"member {member_id} is not running: nothing to stop")
        self.resume(member_id)
        member.stop()

    def start(self, member_id: int) -> None:
        self._cluster.member(member_id).start()

    def pause(self, member_id: int) -> None:
        self._cluster.member(member_id).pause()
        self._paused.add(member_id)

    def resume(self, member_id: int) -> None:
        if member_id in self._paused:
            self._paused.discard(member_id)
            self._cluster.member(member_id).resume()

    # --- clients and the end ---

    def client(self, timeout_s: float) -> Requests:
        return LiveClient(self._cluster.ingress_endpoints(), self._cluster.resolver(), timeout_s)

    def load(self, settings: WorkloadSettings) -> "HistoryLoad":
        manifest = replace(self.run.read_manifest(), workload=settings.to_json())
        self.run.write_manifest(manifest)
        history = self.run.history_writer()
        cluster = self._cluster
        load = ProcessLoad(cluster.ingress_endpoints(), history, settings, resolver=cluster.resolver())
        owned = HistoryLoad(load, history)
        owned.start()
        return owned

    def converge(self, timeout_s: float) -> Converge:
        return self._cluster.converge(timeout_s)

    def down(self) -> None:
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


class LiveClient:
    """Requests over real sockets; opens another session when the last one is of no use. Implements `Requests`."""

    def __init__(self, endpoints: Mapping[int, str], resolver: Resolver, timeout_s: float) -> None:
        self._client = BlockingClient(endpoints, timeout_s, client_name="upheaval test", resolver=resolver)
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
