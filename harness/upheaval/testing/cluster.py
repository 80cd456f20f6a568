"""`Cluster`: a cluster for a test or a script, on the runtime of one's choice, with the faults a test can do to it."""

import os
import uuid
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from upheaval.accepts import Accepts
from upheaval.checkers.judge import verify_run
from upheaval.checkers.verdict import Report, Verdict
from upheaval.cluster import Witnesses, end_run, needs_closing_snapshot, perform
from upheaval.errors import EnvironmentFault, UsageError
from upheaval.operations.restore import Source, examine, with_protocol_of
from upheaval.records import (
    OWN_SYSTEM,
    STANDBY,
    TOGETHER,
    AdminCommand,
    ControlRecord,
    Converge,
    RunFolder,
    read_schema,
)
from upheaval.runtime_names import DOCKER, PROCESS, RUNTIMES, SIMULATED
from upheaval.runtimes import cluster_file
from upheaval.system import ClusterSpec, MemberStatus
from upheaval.testing.backend import Backend, RunningLoad
from upheaval.testing.backup import Backup
from upheaval.testing.calls import RETRY_WAIT_S, Client
from upheaval.testing.chaos import ActiveFault, Chaos, Whom
from upheaval.testing.drawn import drawn
from upheaval.testing.together import Ask, ask_together
from upheaval.workload import SERVICES, WORKBENCH_SERVICE, LoadCounts, WorkloadSettings
from upheaval_node.sbe import SbeSchema
from upheaval_node.suggestions import did_you_mean

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

WAIT_S: Final = 30.0
CLIENT_TIMEOUT_S: Final = 10.0


class Workload:
    """Seeded load on the shipped services, each operation in the history. A run has one; it runs until `stop`."""

    def __init__(self, cluster: "Cluster") -> None:
        self._cluster = cluster
        self._load: RunningLoad | None = None
        self._is_running = False

    @property
    def counts(self) -> LoadCounts:
        """How its operations have ended so far."""
        return LoadCounts() if self._load is None else self._load.counts

    def start(self, *, keys: int = 8, slots: int = 8, rate: int = 200) -> None:
        """Begin; `rate` is operations a second over all `slots`, 0 for no limit. Nothing happens when it runs."""
        if self._is_running:
            return
        if self._load is not None:
            raise UsageError("the workload of this run has ended: a run has one, start another cluster for another")
        service = self._cluster.service
        settings = WorkloadSettings(seed=self._cluster.seed, keys=keys, slots=slots, rate=rate, service=service)
        self._load = self._cluster.start_load(settings)
        self._is_running = True

    def wait_for(self, more: int, timeout_s: float = WAIT_S) -> LoadCounts:
        """Wait until that many more operations are acknowledged; starts the load if it does not run yet."""
        self.start()
        assert self._load is not None
        self._load.wait_until_acknowledged(self._load.counts.ok + more, timeout_s)
        return self._load.counts

    def stop(self) -> LoadCounts:
        """Invoke nothing more, and settle what is outstanding."""
        if self._is_running and self._load is not None:
            self._is_running = False
            self._load.finish()
        return self.counts


class Cluster:
    """A cluster of members that run one service; use it in a `with` statement, or call `up` and `down`.

    `service` is a shipped one or `module:Class`, looked up in `source` (a folder; the current one by default) before
    the Python path; containers get a copy of that folder, without what the patterns in `ignored` name. With a
    custom `image`, the service is in the image. `model` is what its answers are judged by (`upheaval.Model`), `schema`
    the file of the SBE schema of its messages.
    `system` is what the members are, `NAME` or `NAME:VERSION`; to members of Aeron, `client` (`CLASSPATH:Class` in
    `source`) is the program that requests go through, `launcher` a command that starts each member there, and `jvm`
    options of Java's.
    `runtime` is `process`, `simulated` or `docker`. `links`: real members reach each other through proxies, which
    faults of links need; simulated ones always do. `machines`: the kinds of faults, `clock-jump` or `disk-full`, for
    which members in processes get clocks and volumes of their own. `witnesses`: a custom service takes snapshots before
    the first fault and after each heal, without being asked to. `planted`: the members have that bug (`upheaval
    planted`), to see that a test finds it. The run leaves everything in `folder`. `restore_from` is the folder of
    a backup or a standby, or of a member that is down, which the members begin with.
    """

    def __init__(
        self,
        service: str = WORKBENCH_SERVICE,
        source: str | os.PathLike[str] | None = None,
        *,
        runtime: str = PROCESS,
        members: int = 3,
        seed: int = 1,
        sync_level: int = 0,
        leader_disconnect_ms: int = 0,
        components: str = TOGETHER,
        image: str | None = None,
        system: str = OWN_SYSTEM,
        model: str = "",
        schema: str | os.PathLike[str] = "",
        client: str = "",
        launcher: str = "",
        jvm: str = "",
        ignored: Sequence[str] = (),
        links: bool = False,
        machines: Collection[str] = (),
        witnesses: bool = False,
        planted: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        restore_from: str | os.PathLike[str] | None = None,
    ) -> None:
        if runtime not in RUNTIMES:
            hint = did_you_mean(runtime, RUNTIMES)
            raise UsageError(f"runtime {runtime!r}: use one of {', '.join(RUNTIMES)}{hint}")
        if image is not None and runtime != DOCKER:
            raise UsageError(f"an image is for containers: use runtime {DOCKER}")
        self.runtime = runtime
        self.service = service
        self.size = members
        self.seed = seed
        source_path = None if image is not None and source is None else source_folder(service, source)
        path = Path(folder) if folder is not None else Path("runs") / f"cluster-{uuid.uuid4().hex[:12]}"
        origin = None if restore_from is None else examine(Path(restore_from))
        spec = ClusterSpec(
            members,
            components,
            sync_level=sync_level,
            leader_disconnect_ms=leader_disconnect_ms,
            service=service,
            source=str(source_path or ""),
            image=image or "",
            model=model,
            schema=os.fspath(schema),
            client=client,
            launcher=launcher,
            jvm=jvm,
            ignored=tuple(ignored),
            planted=planted,
            system=system,
        )
        if origin is not None:
            spec = with_protocol_of(origin, spec)
        make_live = partial(self._make_live, links=links, machines=machines)
        make = self._make_simulated if runtime == SIMULATED else make_live
        self._backend = make(path, spec, origin)
        taken = Witnesses(self._backend.target, service, is_on=witnesses)
        self.chaos = Chaos(self._backend, components=components, witnesses=taken)
        self.workload = Workload(self)
        self.backup = Backup(self._backend)
        self.standby = Backup(self._backend, f"{STANDBY}-0")
        self._schema_file = spec.schema
        self._clients: list[Client] = []
        self._is_down = False
        self._has_commands = False
        self._report: Report | None = None

    def _make_live(
        self, folder: Path, spec: ClusterSpec, origin: Source | None, *, links: bool, machines: Collection[str]
    ) -> Backend:
        from upheaval.testing.live import LiveBackend

        try:
            return LiveBackend(
                self.runtime, folder, spec, seed=self.seed, links=links, machines=machines, origin=origin
            )
        except EnvironmentFault as error:
            if self.runtime != DOCKER:
                raise
            others = " and ".join(name for name in RUNTIMES if name != DOCKER)
            raise EnvironmentFault(f"{error} (without containers: runtimes {others})") from error

    def _make_simulated(self, folder: Path, spec: ClusterSpec, origin: Source | None) -> Backend:
        from upheaval.testing.simulation import SimulatedBackend

        cluster_file.check(spec.made(""), SIMULATED)
        cluster_file.require_usable(folder)
        return SimulatedBackend(RunFolder(folder), spec, seed=self.seed, origin=origin)

    @cached_property
    def schema(self) -> SbeSchema:
        """The SBE schema of the service's messages: `cluster.schema.NewOrder(price=5)` is a request.

        Raises `UsageError` for a cluster without one.
        """
        if not self._schema_file:
            raise UsageError("this cluster has no schema: give schema=, or upheaval_schema in the ini file of pytest")
        return read_schema(self._schema_file)

    # --- life ---

    @property
    def run(self) -> RunFolder:
        """The run folder."""
        return self._backend.run

    def up(self, timeout_s: float = WAIT_S) -> int:
        """Start all members and wait for a leader that serves; returns its member id."""
        return self._backend.target.up(timeout_s)

    def down(self) -> None:
        """End load, clients and members; the run folder stays."""
        if self._is_down:
            return
        self._is_down = True
        with ExitStack() as stack:
            # From the last to the first, and each whatever becomes of the others.
            stack.callback(self._backend.down)
            stack.callback(self.chaos.give_up)
            for client in self._clients:
                stack.callback(client.close)
            self.workload.stop()

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    # --- what it is and does ---

    @property
    def member_ids(self) -> list[int]:
        """The ids of all members, whether they run or not."""
        return list(range(self.size))

    def status(self) -> list[MemberStatus]:
        """What each member says of itself now."""
        return self._backend.target.status()

    def leader(self) -> int | None:
        """The member id of the leader that serves, if there is one now."""
        return self._backend.target.leader()

    def wait_until_leader(self, timeout_s: float = WAIT_S, *, other_than: int | None = None) -> int:
        """The member id of a leader that serves. Raises `UnknownOutcome` when there is none in time."""
        return self._backend.target.wait_until_leader(timeout_s, other_than=other_than)

    def wait_until_caught_up(self, member_id: int, timeout_s: float = WAIT_S) -> None:
        """Wait until a member follows the leader, or leads."""
        self._backend.target.wait_until_caught_up(self._known(member_id), timeout_s)

    def expect_end(self, member_id: int) -> frozenset[str]:
        """What runs of a member now may end by itself, in whichever way; returns its names, for `wait_until_ended`."""
        return self._backend.expect_end(self._known(member_id))

    def wait_until_ended(self, member_id: int, names: frozenset[str], timeout_s: float = WAIT_S) -> list[int]:
        """Wait until what `expect_end` named has ended; returns the exit statuses, 0 for an end in order."""
        return self._backend.wait_until_ended(self._known(member_id), names, timeout_s)

    def client(self, timeout_s: float = CLIENT_TIMEOUT_S, accepts: Accepts | None = None) -> Client:
        """A client for requests to a custom service, each in the history; it is closed with the cluster.

        `accepts` is that of each request that has none of its own.
        """
        client = self._backend.client(timeout_s, accepts)
        self._clients.append(client)
        return client

    def drawn(self, strategy: "SearchStrategy[T]", count: int) -> list[T]:
        """So many values of a strategy of hypothesis, by the seed of this cluster; they may repeat.

        Raises `UsageError` where hypothesis is not installed.
        """
        return drawn(strategy, count, self.seed)

    def together(
        self,
        *asks: tuple[Client, bytes],
        accepts: Accepts | None = None,
        retries: int = 0,
        retry_wait_s: float = RETRY_WAIT_S,
    ) -> list[bytes]:
        """Requests of several clients, all under way at once; returns their answers in the order of the requests.

        `accepts`, `retries` and what is raised are those of `Client.request`; it is raised when all have ended.
        """
        return ask_together(
            [Ask(client, payload, accepts) for client, payload in asks],
            self._backend.ask_round,
            retries=retries,
            retry_wait_s=retry_wait_s,
        )

    def start_load(self, settings: WorkloadSettings) -> RunningLoad:
        """What `workload` runs. Raises `UsageError` for a service that does not know its operations."""
        if self.service not in SERVICES:
            raise UsageError(
                f"the workload drives the services {', '.join(SERVICES)}, this cluster runs {self.service}: "
                "use cluster.client()"
            )
        return self._backend.load(settings)

    # --- commands of an operator, through the control toggle ---

    def snapshot(self, timeout_s: float = WAIT_S) -> int:
        """Let the cluster take a snapshot, and wait until every member that runs has it; returns its log position."""
        self._perform("snapshot", timeout_s)
        return max(status.snapshot_position for status in self._backend.target.control_statuses())

    def standby_snapshot(self, timeout_s: float = WAIT_S) -> int:
        """Leave a snapshot to the standby, and wait until every member that runs knows of it; returns its position."""
        self._perform(AdminCommand.STANDBY_SNAPSHOT, timeout_s)
        return max(status.standby_position for status in self._backend.target.control_statuses())

    def replicate_standby_snapshot(self, timeout_s: float = WAIT_S) -> None:
        """Have every member that runs fetch the latest snapshot of the standby, and wait until each has it."""
        self._perform(AdminCommand.REPLICATE_STANDBY_SNAPSHOT, timeout_s)

    def suspend(self, timeout_s: float = WAIT_S) -> None:
        """Let the cluster take no requests, until `resume_cluster`."""
        self._perform("suspend", timeout_s)

    def resume_cluster(self, timeout_s: float = WAIT_S) -> None:
        """Let a suspended cluster go on. (`resume` is for members that are paused.)"""
        self._perform("resume", timeout_s)

    def shutdown(self, timeout_s: float = WAIT_S) -> None:
        """Let the cluster take a snapshot and end; waits until all members have ended by themselves with status 0.

        `start_all` starts them again.
        """
        self._perform("shutdown", timeout_s)

    def abort(self, timeout_s: float = WAIT_S) -> None:
        """As `shutdown`, without a snapshot."""
        self._perform("abort", timeout_s)

    def restart_from_snapshot(self, timeout_s: float = WAIT_S) -> int:
        """Let the cluster take a snapshot and end, and start all members from it; returns the id of the new leader."""
        self.shutdown(timeout_s)
        return self.start_all(timeout_s)

    def start_all(self, timeout_s: float = WAIT_S) -> int:
        """Start what is down, and wait until all members follow one leader; returns its member id."""
        return self._perform("start", timeout_s).leader

    # --- faults: the common ones, by the words of `chaos` ---

    def kill(self, who: Whom, component: str | None = None) -> ActiveFault:
        """End members, or one component of each, without any notice."""
        return self.chaos.kill(who, component)

    def stop(self, who: Whom) -> ActiveFault:
        """Let members end in an orderly way."""
        return self.chaos.stop(who)

    def start(self, member_id: int) -> None:
        """Start what is not running of a member. It joins by itself."""
        self.chaos.start(member_id)

    def pause(self, who: Whom) -> ActiveFault:
        """Let members not run, as SIGSTOP does: they hold their connections and answer nothing."""
        return self.chaos.pause(who)

    def resume(self, member_id: int) -> None:
        """Let a paused member go on."""
        self.chaos.resume(member_id)

    def partition(self, one: Whom, other: Whom) -> ActiveFault:
        """Cut the links between two groups of members."""
        return self.chaos.partition(one, other)

    def heal(self) -> None:
        """Undo every fault, start what is down, and wait until all members follow one leader."""
        self.chaos.heal()

    # --- the verdict ---

    def converge(self, timeout_s: float = WAIT_S) -> Converge:
        """Wait until all members stand at one position, and write it down. There must be no load."""
        return self._backend.target.converge(timeout_s)

    def end(self) -> None:
        """End the run as its verdict needs it: stop the load, heal, converge, take the cluster down."""
        if not self._is_down:
            self.workload.stop()
            self.heal()
            needs = needs_closing_snapshot(self.service, has_commands=self._has_commands)
            end_run(self._backend.target, takes_snapshot=needs)
            self.down()

    def verify(self) -> Report:
        """`end` the run and judge it: check every promise."""
        self.end()
        self._report = replace(verify_run(self.run.path), run=str(self.run.path))
        return self._report

    @property
    def report(self) -> Report | None:
        """What `verify` returned last; None before it."""
        return self._report

    def assert_valid(self) -> Report:
        """As `verify`. Raises `AssertionError` with what is broken, the worst first, when the run is not valid."""
        __tracebackhide__ = True
        report = self.verify()
        if report.verdict is not Verdict.VALID:
            raise AssertionError(str(report))
        return report

    def _perform(self, command: str, timeout_s: float) -> ControlRecord:
        self._has_commands = True
        return perform(self._backend.target, command, timeout_s)

    def _known(self, member_id: int) -> int:
        if not 0 <= member_id < self.size:
            raise UsageError(f"unknown member {member_id}: this cluster has members 0 to {self.size - 1}")
        return member_id


def source_folder(code: str, source: str | os.PathLike[str] | None) -> Path | None:
    """The folder of the code of a service or a launcher; None for a shipped service, which is installed."""
    if source is None:
        return Path.cwd() if ":" in code else None
    path = Path(source).absolute()
    if not path.is_dir():
        raise UsageError(f"source {path} is not a folder: give the folder that holds the service's module")
    return path
