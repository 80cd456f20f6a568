"""The state of a simulated run at a moment of its virtual time: what each member knows and has, and its files.

The run is played again up to that moment, and ends there. Members are looked at from outside, between two events.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from upheaval.checkers.states.replay import StateWriter
from upheaval.errors import HarnessError, UsageError
from upheaval.execution.run import play
from upheaval.execution.simulated import SimulatedStage
from upheaval.records import Json
from upheaval.runtimes.simulated.cluster import SimulatedMember
from upheaval.runtimes.simulated.disk import Disk
from upheaval.runtimes.simulated.world import START_NS
from upheaval.scenario import Scenario
from upheaval.system import MemberStatus
from upheaval_chaos.driver import FaultDriver
from upheaval_node.cluster.consensus_module import ConsensusModule
from upheaval_node.service.container import ServiceContainer
from upheaval_node.types import S

_LENGTH_PREFIX: Final = 8


@dataclass(frozen=True, slots=True)
class SessionAt:
    """A client session. `opened_position` is the end of its opening in the log."""

    session: int
    state: str
    opened_position: int


@dataclass(frozen=True, slots=True)
class TimerAt:
    """A pending timer of a service. `deadline` is in cluster time."""

    timer: int
    deadline: int


@dataclass(frozen=True, slots=True)
class ServiceAt:
    """A service. `digest` is the SHA-256 of what its snapshot at `log_position` would hold, `pending` the number of its
    messages that are not in the log yet.
    """

    service: int
    name: str
    log_position: int
    digest: str
    pending: int


@dataclass(frozen=True, slots=True)
class FileAt:
    """A file of a member, with its length in bytes. A power cut could change one that is not durable."""

    path: str
    length: int
    is_durable: bool


@dataclass(frozen=True, slots=True)
class MemberAt:
    """A member. Without a process it has files only."""

    status: MemberStatus
    module_state: str
    sessions: tuple[SessionAt, ...]
    timers: tuple[TimerAt, ...]
    services: tuple[ServiceAt, ...]
    files: tuple[FileAt, ...]

    def to_fields(self) -> dict[str, Json]:
        """The JSON fields."""
        status = self.status
        return {
            "member": status.member_id,
            "is_running": status.alive,
            "role": status.role,
            "election_state": status.election_state,
            "leadership_term_id": status.leadership_term_id,
            "append_position": status.append_position,
            "commit_position": status.commit_position,
            "module_state": self.module_state,
            "sessions": [asdict(session) for session in self.sessions],
            "timers": [asdict(timer) for timer in self.timers],
            "services": [asdict(service) for service in self.services],
            "files": [asdict(file) for file in self.files],
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """All members at a moment, `since_ns` after the start of the run."""

    since_ns: int
    members: tuple[MemberAt, ...]

    def to_fields(self) -> dict[str, Json]:
        """The JSON fields."""
        return {"seconds": round(self.since_ns / S, 9), "members": [member.to_fields() for member in self.members]}


class _Reached(Exception):
    """The moment is there."""


def play_until(scenario: Scenario, stage: SimulatedStage, since_ns: int, driver: FaultDriver | None = None) -> Moment:
    """Play a run up to a moment, before anything that happens at it. Raises `UsageError` for a run that ends before."""

    def stop() -> None:
        raise _Reached

    world = stage.cluster.world
    world.at(START_NS + since_ns, stop)
    why = ""
    try:
        play(scenario, stage, lambda _: None, driver)
    except _Reached:
        return Moment(since_ns, tuple(map(_member_at, stage.cluster.members)))
    except HarnessError as error:
        why = f" ({' '.join(str(error).split())})"
    end_s = (world.now_ns - START_NS) / S
    raise UsageError(f"the run ends {end_s:.3f} s after its start{why}: give an earlier moment")


def _member_at(member: SimulatedMember) -> MemberAt:
    status, files = member.status(), tuple(_files(member.disk))
    module = next((agent for agent in _alive(member) if isinstance(agent, ConsensusModule)), None)
    if module is None:
        return MemberAt(status, "", (), (), (), files)
    state = module.replicated_state
    sessions = (
        SessionAt(session.id, session.state.name, session.opened_log_position)
        for _, session in sorted(state.sessions.sessions.items())
    )
    containers = (agent for agent in _alive(member) if isinstance(agent, ServiceContainer))
    services = (_service_at(container, len(state.pending_messages[container.service_id])) for container in containers)
    timers = (TimerAt(timer, deadline) for timer, deadline in state.timers)
    return MemberAt(status, module.state.name, tuple(sessions), tuple(timers), tuple(services), files)


def _alive(member: SimulatedMember) -> Sequence[object]:
    return member.agents if member.alive else ()


def _service_at(container: ServiceContainer, pending: int) -> ServiceAt:
    writer = StateWriter()
    container.service.on_take_snapshot(writer)
    whole = hashlib.sha256()
    for message in writer.messages:
        whole.update(len(message).to_bytes(_LENGTH_PREFIX, "little"))
        whole.update(message)
    name = type(container.service).__name__
    return ServiceAt(container.service_id, name, container.view.log_position, whole.hexdigest(), pending)


def _files(disk: Disk) -> Iterator[FileAt]:
    for path in sorted(disk.paths):
        inode = disk.find(path)
        yield FileAt(path, inode.size, not inode.dirty)
