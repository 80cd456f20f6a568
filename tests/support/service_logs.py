"""Logs of the requests to custom services, made by hand: no cluster and no time."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from support.built_runs import LogBuilder, write_log
from upheaval.checkers.states.replay import LoggedMessage, Member, Replay
from upheaval.records import Manifest, RunFolder, source_digest
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.session_header import pack_session_header
from upheaval_node.service.api import ClusterRole, ClusterTimeUnit

SERVICES = Path(__file__).parent / "services"
FIRST_NUMBER = -(1 << 63) + 1
LEADER = Member(role=ClusterRole.LEADER)

Change = Callable[[int], bool]


@dataclass
class Log:
    """What a leader's cluster logs of the requests to a service: timers when they are due, its messages at once."""

    service: str
    time_unit: ClusterTimeUnit = ClusterTimeUnit.MILLIS
    messages: list[LoggedMessage] = field(default_factory=list)
    time: int = 1_000_000
    number: int = FIRST_NUMBER
    position: int = 0
    fired: int = 0
    egress: list[tuple[int, bytes]] = field(default_factory=list)
    """What the leader sends, with the session."""
    lost_timers: Change = lambda number: False
    lost_messages: Change = lambda number: False

    def __post_init__(self) -> None:
        self._replay = Replay(self.service, is_own=True, hears=True, member=LEADER)
        self._timers: dict[int, int] = {}
        self._offered: list[bytes] = []
        self.begin_term(0, leader=0)
        for session in (1, 2, 3):
            self.event(cm.SessionOpenEvent(0, 7, session, self.time, 3, "aeron:tcp?endpoint=client:1", b"ann"))

    def add(self, content: bytes) -> None:
        self.position += 64 + (len(content) + 31 & -32)
        self.messages.append(LoggedMessage(self.position, content))
        effects = self._replay.follow(self.messages[-1])
        self._offered += effects.offers
        self.egress += effects.egress
        for timer, deadline in effects.timers:
            self._timers.pop(timer, None)
            if deadline is not None:
                self._timers[timer] = deadline

    def event(self, event: object) -> None:
        self.add(cm.SCHEMA.encode(event))

    def begin_term(self, term: int, *, leader: int) -> None:
        self.event(
            cm.NewLeadershipTermEvent(
                leadership_term_id=term,
                log_position=self.position,
                timestamp=self.time,
                term_base_log_position=0,
                leader_member_id=leader,
                log_session_id=1,
                time_unit=self.time_unit,
                app_version=1,
            )
        )

    def request(self, session: int, **asked: object) -> None:
        self.time += 50
        for timer, deadline in sorted(self._timers.items(), key=lambda item: item[1]):
            if deadline <= self.time:
                del self._timers[timer]
                self.fired += 1
                if not self.lost_timers(self.fired):
                    self.event(cm.TimerEvent(0, timer, self.time))
        self.add(pack_session_header(0, session, self.time) + json.dumps(asked).encode())
        while self._offered:
            message = self._offered.pop(0)
            self.number += 1
            if not self.lost_messages(self.number - FIRST_NUMBER):
                self.add(pack_session_header(0, self.number, self.time) + message)

    def snapshot(self) -> None:
        self.event(cm.ClusterActionRequest(0, 0, self.time, cm.ClusterAction.SNAPSHOT, 0))


def used(service: str, *, module: str = "accounts", **options: object) -> Log:
    log = Log(f"{module}:{service}", **options)  # type: ignore[arg-type]
    log.request(3, id="listen", do="listen")
    log.request(1, id="fee", do="fee", amount=3)
    for number in range(90):
        log.request(1 + number % 2, id=f"x{number}", do="deposit", to=f"o{number % 5}", amount=7 + number % 3)
        if number % 20 == 19:
            log.request(1, id=f"x{number - 4}", do="deposit", to="o0", amount=7)
    log.snapshot()
    return log


def recorded(log: Log, folder: Path) -> RunFolder:
    """A run folder in which member 0 has recorded that log."""
    run = RunFolder(folder)
    manifest = Manifest("run-1", "process", 3, "test", 0, service=log.service, source=str(SERVICES))
    run.create(replace(manifest, source_digest=source_digest(str(SERVICES), log.service)))
    recording = LogBuilder()
    for message in log.messages:
        recording.append(message.content)
    write_log(run.member(0).path, 0, b"".join(recording.blocks), session_id=1)
    return run
