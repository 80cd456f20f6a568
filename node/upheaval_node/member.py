"""Which agents make a member, together in one process or one component a process. No I/O here.

The process runtime and the simulated runtime build members from these functions. Agents come in the order in which
they take their turns. They are closed in reverse (`close_agents`), so that each still has what it depends on.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random

from upheaval_node.archive.archive import Archive
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.cluster.credentials_authenticator import credentials_of
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.counters import COMMIT_POSITION, RECORDING_POSITION, RECOVERY_STATE, Counters
from upheaval_node.errors import NodeError, UsageError
from upheaval_node.files import layout
from upheaval_node.marks import MarkKeeper, MarkMaker
from upheaval_node.media.api import Media
from upheaval_node.media.component import ComponentMedia
from upheaval_node.media.driver import MediaDriver
from upheaval_node.media.observed import ObservedMedia
from upheaval_node.media.resolver import NamingResolver, Resolver, StaticResolver
from upheaval_node.member_config import MemberConfig, config_from_fields, member_names_by_endpoint
from upheaval_node.ports import ErrorSink, MessageObserver, Network, Storage, Tracer
from upheaval_node.service.api import ClusteredService
from upheaval_node.service.container import ServiceContainer
from upheaval_node.tls_files import ANYBODY
from upheaval_node.types import Now

__all__ = [
    "MemberAgent",
    "MemberConfig",
    "MemberPorts",
    "build_archive_process",
    "build_consensus_process",
    "build_service_process",
    "build_together",
    "close_agents",
    "config_from_fields",
    "end_services",
    "ends_before_its_member",
    "has_lost_service",
]


MemberAgent = MarkKeeper | Media | Archive | ConsensusModule | ServiceContainer
"""What a member is made of: agents with an orderly end."""


def refuse_credentials(source: str) -> str:
    """Raises `UsageError`: a runtime without files has no credentials."""
    raise UsageError(f"credentials in {source!r} cannot be read in this runtime")


@dataclass(frozen=True, slots=True)
class MemberPorts:
    """The outside of one process of a member, filled by a runtime. `random` gives that of a component, by its name.

    Challenges alone come from `nonces` where a runtime has one: no client may foresee them, and none may come again
    after a restart, because an answer to it would be known.

    With an `observer` every message and state change of the member is shown to it. `read_credentials` gives the text of
    what `credentials:SOURCE` and `roles:SOURCE` name. What can be read again while the member runs is put into
    `reloads`; each raises `UsageError` and changes nothing when it is no good.
    """

    network: Network
    storage: Storage
    counters: Counters
    tracer: Tracer
    errors: ErrorSink
    random: Callable[[str], Random]
    pid: int
    now_ms: int
    resolver: Resolver | None = None
    observer: MessageObserver | None = None
    nonces: Random | None = None
    read_credentials: Callable[[str], str] = refuse_credentials
    reloads: list[Callable[[], None]] = field(default_factory=list)

    def media_of(self, media: Media, component: str, *, sees_logs: bool = True) -> Media:
        """The media as one component shall have it."""
        return media if self.observer is None else ObservedMedia(media, self.observer, component, sees_logs=sees_logs)

    def tracer_of(self, component: str) -> Tracer:
        """The tracer as one component shall have it: with an observer, which sees its state changes too."""
        return self.tracer if self.observer is None else self.observer.tracer(self.tracer, component)


def build_together(config: MemberConfig, ports: MemberPorts, services: Sequence[ClusteredService]) -> list[MemberAgent]:
    """All components of a member for one process."""
    make = _marks(config, ports)
    marks = MarkKeeper(
        [
            make.module(config),
            make.archive(config.member_id, config.endpoints.archive),
            *(make.service(service_id, config.member_id) for service_id in range(len(services))),
        ]
    )
    with _starting(marks, ports):
        driver = _driver(config, ports)
        views = [ComponentMedia(driver) for _ in range(2 + len(services))]
        archive, module = _archive(config, ports, views[0]), _module(config, ports, views[1])
        containers = [
            _container(config, ports, views[2 + service_id], service, service_id)
            for service_id, service in enumerate(services)
        ]
    users: list[Archive | ConsensusModule | ServiceContainer] = [archive, module, *containers]
    for agent, view in zip(users, views, strict=True):
        agent.bell = view.bell
    ports.counters.ring(views[1].bell, RECORDING_POSITION)
    for view in views[2:]:
        ports.counters.ring(view.bell, COMMIT_POSITION, RECOVERY_STATE, RECORDING_POSITION)
    return [marks, driver, archive, module, *containers]


def build_archive_process(config: MemberConfig, ports: MemberPorts) -> list[MemberAgent]:
    """Media driver and archive, which the other processes of the member need."""
    marks = MarkKeeper([_marks(config, ports).archive(config.member_id, config.endpoints.archive)])
    with _starting(marks, ports):
        driver = _driver(config, ports)
        archive = _archive(config, ports, driver)
        driver.serve_clients(f"unix:{layout.DRIVER_SOCKET}")
    return [marks, driver, archive]


def build_consensus_process(config: MemberConfig, ports: MemberPorts, media: Media) -> list[MemberAgent]:
    """The consensus module on the media of another process."""
    marks = MarkKeeper([_marks(config, ports).module(config)])
    with _starting(marks, ports):
        module = _module(config, ports, media)
    return [marks, media, module]


def build_service_process(
    config: MemberConfig, ports: MemberPorts, media: Media, service: ClusteredService, service_id: int
) -> list[MemberAgent]:
    """One service container on the media of another process."""
    marks = MarkKeeper([_marks(config, ports).service(service_id, config.member_id)])
    with _starting(marks, ports):
        container = _container(config, ports, media, service, service_id)
    return [marks, media, container]


@contextmanager
def _starting(marks: MarkKeeper, ports: MemberPorts) -> Iterator[None]:
    """The mark files become valid when everything has been made, and say so when something could not be."""
    try:
        yield
    except Exception:
        marks.signal_failed_start()
        raise
    marks.signal_ready(ports.now_ms)


def ends_before_its_member(agent: object) -> bool:
    """Whether the other agents go on when this one has ended in an orderly way: a service does so before its module."""
    return isinstance(agent, ServiceContainer)


def has_lost_service(agents: Sequence[MemberAgent]) -> bool:
    """Whether a service ended although its consensus module did not ask for that: the member has to end, too."""
    modules = [agent for agent in agents if isinstance(agent, ConsensusModule)]
    return any(module.state not in (ModuleState.TERMINATING, ModuleState.CLOSED) for module in modules)


def end_services(agents: Sequence[MemberAgent]) -> None:
    """Their member ends by a failure: each service that was started still hears that it ends."""
    for agent in agents:
        if isinstance(agent, ServiceContainer):
            # What it depends on may be gone already.
            with suppress(NodeError):
                agent.close()


def close_agents(agents: Sequence[MemberAgent], now: Now) -> None:
    """End in order: services, consensus module, archive, media, and the mark files last."""
    for agent in reversed(agents):
        if isinstance(agent, ConsensusModule):
            agent.close(now)
        else:
            agent.close()


def _marks(config: MemberConfig, ports: MemberPorts) -> MarkMaker:
    return MarkMaker(ports.storage, config.folder, config.settings.cluster.cluster_id, ports.pid, ports.now_ms)


def _driver(config: MemberConfig, ports: MemberPorts) -> MediaDriver:
    return MediaDriver(
        ports.network,
        _resolver(config, ports),
        config.settings.media,
        ports.random("media"),
        ports.counters,
        name=f"member-{config.member_id}",
        errors=ports.errors,
    )


def _resolver(config: MemberConfig, ports: MemberPorts) -> Resolver:
    """Where to dial, and over TLS whom to expect there; a client's or a backup's own address may be anybody's."""
    resolver = ports.resolver or StaticResolver(config.names)
    if config.tls is None:
        return resolver
    return NamingResolver(resolver, member_names_by_endpoint(config.members), ANYBODY)


def _archive(config: MemberConfig, ports: MemberPorts, media: Media) -> Archive:
    return Archive(
        ports.media_of(media, "archive", sees_logs=False),
        ports.storage,
        ports.counters,
        config.settings.archive,
        ports.random("archive"),
        ports.errors,
        control_channel=f"aeron:tcp?endpoint={config.endpoints.archive}",
        archive_id=config.member_id,
    )


def _module(config: MemberConfig, ports: MemberPorts, media: Media) -> ConsensusModule:
    authenticator, roles, files = credentials_of(
        config.settings.cluster, ports.read_credentials, ports.nonces or ports.random("authentication")
    )
    ports.reloads.extend(file.reload for file in files)
    context = ModuleContext(
        ports.media_of(media, "consensus"),
        ports.storage,
        ports.counters,
        config.settings,
        config.members,
        config.member_id,
        ports.tracer_of("consensus"),
        ports.errors,
    )
    return ConsensusModule(context, ports.random("consensus"), authenticator=authenticator, authorisation=roles)


def _container(
    config: MemberConfig, ports: MemberPorts, media: Media, service: ClusteredService, service_id: int
) -> ServiceContainer:
    component = f"service-{service_id}"
    return ServiceContainer(
        ports.media_of(media, component),
        ports.counters,
        service,
        config.settings.cluster,
        service_id=service_id,
        tracer=ports.tracer_of(component),
        errors=ports.errors,
    )
