"""A standby on the network of a cluster of whole members: its own media driver, archive, module and services.

What a backup agent does is done by the test here, step by step: `follow` copies the log of a member as far as it is
committed, `pause` stops that.
"""

from collections.abc import Sequence
from random import Random

from support.archive_requests import RequestingClient
from support.archive_world import Syncs
from support.cluster_world import ClusterWorld, EchoService, HostNetwork, Member, RecordedTrace
from support.media_world import RecordedErrors
from support.memory_storage import MemoryStorage
from upheaval_node.archive.archive import Archive
from upheaval_node.archive.calls import PendingCall
from upheaval_node.archive.client import ArchiveClient
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.counters import RECORDING_POSITION, Counter, Counters, recording_key_prefix
from upheaval_node.credentials import CredentialsSupplier, NoCredentials
from upheaval_node.errors import NodeError
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.resolver import StaticResolver
from upheaval_node.ports import Agent
from upheaval_node.service.container import ServiceContainer
from upheaval_node.standby.module import StandbyModule, standby_members
from upheaval_node.standby.notices import SnapshotNotices
from upheaval_node.types import MAX_POSITION, NEVER_NS, NULL_MEMBER_ID, NULL_POSITION, Now, S

FEED = 4711
"""Session id of the copied log."""


class Standby:
    """Implements `ports.Agent`, as one of the parties of a world."""

    def __init__(
        self,
        world: ClusterWorld,
        services: Sequence[EchoService],
        *,
        storage: MemoryStorage | None = None,
        credentials: CredentialsSupplier | None = None,
    ) -> None:
        self.world = world
        self.storage = storage if storage is not None else MemoryStorage()
        self.network = HostNetwork(world.network, "s0")
        self.counters = Counters.in_memory(512)
        self.errors = RecordedErrors()
        self.trace = RecordedTrace()
        self.services = services
        self.ended: NodeError | None = None
        settings, random = world.settings, Random(world.random.random())
        self.driver = MediaDriver(
            self.network, StaticResolver(), settings.media, random, self.counters, errors=self.errors
        )
        self.archive = Archive(
            self.driver,
            self.storage,
            self.counters,
            settings.archive,
            random,
            self.errors,
            control_channel="aeron:tcp?endpoint=s0:5",
            archive_id=99,
        )
        self.recording_log = RecordingLog(self.storage)
        self.notices = SnapshotNotices(
            self.driver,
            [f"m{member_id}:2" for member_id in range(world.count)],
            "s0:2",
            credentials or NoCredentials(),
            self.errors.report,
            timeout_ns=S,
        )
        context = ModuleContext(
            self.driver,
            self.storage,
            self.counters,
            settings,
            standby_members("s0:2", "s0:4", "s0:5"),
            NULL_MEMBER_ID,
            self.trace,
            self.errors,
            recording_log=self.recording_log,
        )
        self.module = StandbyModule(context, self.notices)
        self.containers = [
            ServiceContainer(
                self.driver,
                self.counters,
                service,
                settings.cluster,
                service_id=service_id,
                tracer=self.trace,
                errors=self.errors,
                is_responding=False,
            )
            for service_id, service in enumerate(services)
        ]
        self._own = RequestingClient(self.driver, response_stream_id=21, name="copy")
        self._remote: ArchiveClient | None = None
        self._replay: PendingCall | None = None
        self.agents: list[Agent | Syncs] = [self.driver, Syncs(self.storage), self.archive, self._own]
        self.agents += [self.module, *self.containers]
        world.parties.append(self)

    # --- a party ---

    def do_work(self, now: Now) -> int:
        if self.ended is not None:
            return 0
        try:
            return sum(agent.do_work(now) for agent in self.agents)
        except NodeError as error:
            self.ended = error
            return 1

    def next_deadline_ns(self) -> int:
        return NEVER_NS

    def kill(self) -> MemoryStorage:
        """SIGKILL; its disk is what stays."""
        self.world.parties.remove(self)
        self.network.break_all(is_dead=True)
        return self.storage

    # --- what it shows ---

    @property
    def position(self) -> int:
        return self.module.commit_position

    @property
    def is_active(self) -> bool:
        return self.ended is None and self.module.state is ModuleState.ACTIVE

    def has_read(self, member: Member) -> bool:
        """Whether module and services have all that is committed there."""
        position = member.module.commit_position
        return self.position == position and all(each.view.log_position == position for each in self.containers)

    # --- the copy of the log ---

    def follow(self, member: Member, *, term_id: int = 0, term_base: int = 0, begin: int = NULL_POSITION) -> None:
        """Copy the log of a member from where the own copy ends, or a new one from `begin` on, until `pause`."""
        recording_id = self.recording_log.find_last_term_recording_id()
        self.world.until(lambda: self._own.is_connected)
        remote = self._remote = ArchiveClient(
            self.driver,
            control_channel=f"aeron:tcp?endpoint=m{member.id}:5",
            response_channel="aeron:tcp?control-mode=response",
            response_stream_id=22,
            name="copy",
        )
        self.agents.append(remote)
        self.world.until(lambda: remote.is_connected)
        start = begin
        channel = f"aeron:tcp?endpoint=s0:4|session-id={FEED}"
        if recording_id == -1:
            self._call(self._own.start_recording(channel, 100, local=False, auto_stop=True))
        else:
            start = self._call(self._own.stop_position(recording_id))
            self._call(self._own.extend_recording(recording_id, channel, 100, local=False, auto_stop=True))
        limit = member.module.counters.commit_position.id
        self._replay = remote.bounded_replay(
            member.module._log.recording_id, start, MAX_POSITION - max(start, 0), channel, 100, limit
        )
        self._call(self._replay)
        self.world.until(lambda: self._recording() is not None)
        if recording_id == -1:
            self.recording_log.append_term(0, term_id, term_base, 0)

    def pause(self) -> None:
        """Follow no more, and wait until the recording has stopped."""
        assert self._remote is not None
        assert self._replay is not None
        self._call(self._remote.stop_replay(self._replay.relevant_id))
        self.world.until(lambda: self._recording() is None)
        self.agents.remove(self._remote)
        self._remote.close()

    def truncate(self, recording_id: int, position: int) -> None:
        """The end of a recording is lost; `position` is that of a frame."""
        self._call(self._own.truncate(recording_id, position))

    def _recording(self) -> Counter | None:
        return self.counters.find(RECORDING_POSITION, recording_key_prefix(0))

    def _call(self, call: PendingCall) -> int:
        self.world.until(lambda: call.done)
        assert call.error is None, call.error
        return call.relevant_id
