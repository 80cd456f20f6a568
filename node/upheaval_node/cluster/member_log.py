"""The log of a member: recorded in its archive, published while it leads, followed while another member leads.

Implements `log_access.LogAccess`, the interface of an election. A lengthy operation is a sequence of steps that is
polled; an abandoned one is closed when the next election attempt leaves the term. Only this module and its replays
write the commit counter. Source: Aeron Cluster, entering and completing an election. Of the consensus messages, it
knows only those that carry positions.
"""

from collections.abc import Callable
from typing import Final

from upheaval_node.cluster.catchup_replays import CatchupReplays
from upheaval_node.cluster.consensus_publisher import ConsensusPublisher
from upheaval_node.cluster.follower_log import FollowerLog
from upheaval_node.cluster.leader_log import LeaderLog
from upheaval_node.cluster.log_access import LogTransfer, Progress
from upheaval_node.cluster.log_adapter import LogAdapter
from upheaval_node.cluster.log_publisher import LogPublisher
from upheaval_node.cluster.log_recording import LogRecording
from upheaval_node.cluster.log_replay import LocalLogReplay
from upheaval_node.cluster.log_replication import LeaderLogReplication
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.cluster.module_standing import Standing
from upheaval_node.cluster.module_state import ModuleState
from upheaval_node.cluster.service_proxy import ServiceProxy
from upheaval_node.errors import NodeError, PeerError, TerminationError, TimeoutExpired
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.steps import StepGenerator, Steps
from upheaval_node.types import LOG_START, LONG_AGO_NS, NULL_POSITION, MemberId, Now, Position, TermId

CATCHUP_FLAG: Final = 1
"""Flag of an AppendPosition sent while catching up."""

LIVE_JOIN_WINDOW: Final = 32 * 1024 * 1024
"""In bytes. A follower that catches up adds the live log once it is at most this, or a quarter of a term, behind."""


class MemberLog:
    """One log, written by this member as leader or copied from another leader.

    `on_leave` is called when a term ends, `on_roll_back` when the entries after a position may be replaced, `on_commit`
    on a leader when everything before a position is final.
    """

    def __init__(
        self,
        context: ModuleContext,
        standing: Standing,
        publisher: ConsensusPublisher,
        services: ServiceProxy,
        recording: LogRecording,
        reader: LogAdapter,
        leader_log: LeaderLog,
        *,
        on_leave: Callable[[Now], None],
        on_roll_back: Callable[[Now, Position], None],
        on_commit: Callable[[Now, Position], None],
    ) -> None:
        self._context = context
        self._standing = standing
        self._publisher = publisher
        self._services = services
        self._on_leave = on_leave
        self._on_roll_back = on_roll_back
        self._on_commit = on_commit
        self._interval_ns = context.settings.timeouts.leader_heartbeat_interval_ns
        self.recording: Final = recording
        self.reader: Final = reader
        self.leader_log: Final = leader_log
        self.follower_log: Final = FollowerLog(context, recording, services, reader)
        self.catchups: Final = CatchupReplays(context)
        self._last_commit_send_ns = LONG_AGO_NS
        self._last_append_send_ns = LONG_AGO_NS
        self._last_append_position = LOG_START
        self._appended_position = LOG_START
        self._append_advance_ns = 0
        self._backtrack_reported_at = NULL_POSITION
        self._replays: list[LocalLogReplay] = []
        self._replications: list[LeaderLogReplication] = []
        self._leaving: Steps[Position] | None = None
        self._joining: Steps[None] | None = None
        self._truncating: Steps[None] | None = None

    @property
    def commit_position(self) -> Position:
        """The position up to which the log is known to be committed and, on a follower, was read."""
        return Position(self._context.published.commit_position.get())

    @property
    def recording_id(self) -> int:
        """The recording of the log in the member's archive, -1 without one."""
        return self.recording.recording_id

    @property
    def publisher(self) -> LogPublisher:
        """The log publisher. Only a leader has one."""
        publisher = self.leader_log.publisher
        assert publisher is not None
        return publisher

    @property
    def can_serve_catchup(self) -> bool:
        """Whether a leader may start a catch-up replay.

        While the services join the log, they could take a replay with the same session id for the log.
        """
        return self.leader_log.publisher is not None and self._joining is None and not self._services.is_joining

    @property
    def next_send_ns(self) -> int:
        """When the next CommitPosition of a leader or AppendPosition of a follower is due."""
        last_ns = self._last_commit_send_ns if self._standing.is_leader else self._last_append_send_ns
        return last_ns + self._interval_ns

    def begin_at(self, position: Position) -> None:
        """Set the commit position, from a snapshot, an election or a quorum."""
        self._context.published.commit_position.set(position)

    def begin_term(self, now: Now, position: Position) -> None:
        """Begin a term after an election. A leader sends its position at once, a follower after an interval."""
        self.begin_at(position)
        if self._standing.is_leader:
            self._last_commit_send_ns = LONG_AGO_NS
        else:
            self._last_append_send_ns = self._append_advance_ns = now.ns

    # --- leaving a term ---

    def leave_term(self, now: Now, log_position: Position) -> Position | None:
        """Leave the term. A join or truncation in progress is abandoned, no matter which caller began it."""
        if self._leaving is None:
            for steps in (self._joining, self._truncating):
                if steps is not None:
                    steps.close()
            self._joining = self._truncating = None
            self._leaving = Steps(self._leave_term(now, log_position))
        try:
            is_done = self._leaving.poll(now)
        except BaseException:
            self._leaving = None
            raise
        if not is_done:
            return None
        stop_position = self._leaving.result
        self._leaving = None
        return stop_position

    def _leave_term(self, now: Now, log_position: Position) -> StepGenerator[Position]:
        self._on_leave(now)
        self._backtrack_reported_at = NULL_POSITION
        self.follower_log.remove_destinations()
        # Services that were asked to join a log must find a log.
        joining_at = self._services.joining_at
        if joining_at is not None and self.follower_log.is_open:
            yield from self.recording.stop()
            self.follower_log.replace_for_services(joining_at)
        yield from self._services.settle(now)
        # A replay shares the session id of the live log, so it must not outlive it.
        yield from self.catchups.stop_all(now)
        self.reader.detach()
        self.leader_log.close()
        for replay in self._replays:
            replay.close()
        for replication in self._replications:
            replication.close()
        while self._replays or self._replications:
            self.release_abandoned()
            if self._replays or self._replications:
                yield
        stop_position = yield from self.recording.stop()
        self._on_roll_back(now, log_position)
        self.begin_at(log_position)
        self.follower_log.close()
        return stop_position

    def release_abandoned(self) -> None:
        """End the archive's work for replays and replications that are no longer read."""
        if not self._services.is_joining:
            self._replays = [replay for replay in self._replays if not (replay.is_closed and replay.release())]
            self._replications = [
                replication
                for replication in self._replications
                if not (replication.is_closed and replication.release())
            ]

    def truncate(self, now: Now, position: Position) -> bool:
        """Cut the recording. It is already stopped: a member that must truncate has not joined a log."""
        if self._truncating is None:
            self._context.report(now, "election", f"Truncating Cluster Log - to {position}")
            self._truncating = Steps(self.recording.truncate(position))
        try:
            is_done = self._truncating.poll(now)
        except NodeError:
            # The next attempt makes a new request to the archive.
            self._truncating = None
            raise
        if is_done:
            self._truncating = None
        return is_done

    # --- leader ---

    def publish(self, position: Position) -> int:
        """Create the publication, with all other members as destinations."""
        return self.leader_log.open(position)

    def join_as_leader(self, now: Now, leadership_term_id: TermId, log_position: Position, *, is_startup: bool) -> bool:
        """Have the archive record the publication, and then the services join it."""
        if self._joining is None:
            self._standing.enter_term(leadership_term_id)
            self._joining = Steps(self.leader_log.join(log_position, is_startup=is_startup))
        return self._has_joined(now)

    def _has_joined(self, now: Now) -> bool:
        # Differs from Aeron (docs/protocol.md, E1): polled; Aeron waits inside one tick.
        assert self._joining is not None
        if not self._joining.poll(now):
            return False
        self._joining = None
        return True

    def commit(self, now: Now, leadership_term_id: TermId, append_position: Position, quorum_position: Position) -> int:
        """Commit up to `quorum_position`. A position that went backwards commits nothing and is reported once."""
        commit = self.commit_position
        reached = self.publisher.whole_entries(min(quorum_position, append_position))
        if reached <= commit and now.ns < self._last_commit_send_ns + self._interval_ns:
            return 0
        if reached < commit and self._backtrack_reported_at != commit:
            self._backtrack_reported_at = commit
            text = f"quorum position went backwards: leaderCommitPosition={commit} quorumPosition={reached}"
            self._context.report(now, "commit position", text)
        member_id = self._context.member_id
        message = cm.CommitPosition(
            leadership_term_id=leadership_term_id, log_position=reached, leader_member_id=member_id
        )
        self._publisher.send_to_others(now, message)
        self._last_commit_send_ns = now.ns
        if reached > commit:
            self.begin_at(reached)
            self._on_commit(now, reached)
        return 1

    def lead(self, now: Now) -> int:
        """Outside of elections: commit what a quorum has recorded of this term's log."""
        appended = self.recording.position
        if appended is None and self.recording.has_stopped:
            appended = self.recording.stop_position
        if appended is None:
            return 0
        term_id = self._standing.leadership_term_id
        self._context.own.record(term_id, appended, now.ns)
        terms = self._context.rules.quorum_terms(term_id)
        return self.commit(now, term_id, appended, self._context.membership.quorum_position(now, terms))

    def append_term_event(self, now: Now, leadership_term_id: TermId, log_position: Position) -> bool:
        """Append a NewLeadershipTermEvent, which names its own end position."""
        context, publisher = self._context, self.publisher

        def event(position: Position) -> cm.NewLeadershipTermEvent:
            return cm.NewLeadershipTermEvent(
                leadership_term_id=leadership_term_id,
                log_position=position,
                timestamp=context.cluster_time(now),
                term_base_log_position=log_position,
                leader_member_id=context.member_id,
                log_session_id=publisher.session_id,
                time_unit=context.time.unit,
                app_version=context.settings.app_version,
            )

        return publisher.append_with_end(event) > 0

    # --- follower ---

    def follow(self, log_session_id: int, log_position: Position, *, catching_up: bool) -> str | None:
        """Subscribe once. The port of the catch-up destination becomes known some turns later."""
        log = self.follower_log
        if not log.is_open:
            log.open(log_session_id, log_position)
            if catching_up:
                log.add_catchup_destination()
            else:
                log.add_live_destination()
        return log.catchup_endpoint

    def join_as_follower(self, now: Now, start: Position, name_term: Callable[[], None], *, is_startup: bool) -> bool:
        """Have the archive record the stream, and then the services join it."""
        if self._joining is None:
            self._last_append_send_ns = self._append_advance_ns = now.ns
            self._joining = Steps(self.follower_log.join(start, name_term, is_startup=is_startup))
        if not self._has_joined(now):
            return False
        self._last_append_position = self._appended_position = start
        return True

    def catch_up(self, now: Now, limit_position: Position, join_position: Position) -> Progress:
        """Read and report the log, and add the live log when it is near.

        Raises `PeerError` when log or recording end, `TimeoutExpired` when nothing is appended for a heartbeat
        time-out.
        """
        work, standing, log = 0, self._standing, self.follower_log
        if standing.reads_log:
            appended = self.recording.position
            if appended is None:
                raise PeerError("the log is not recorded any more while catching up")
            work = self.reader.poll(now, min(appended, limit_position))
            if work == 0 and self.reader.is_image_closed:
                raise PeerError(f"the log ended at {self.reader.position} while catching up")
            work += self.send_append_position(now, CATCHUP_FLAG)
            self._raise_commit_position(limit_position)
        heartbeat_ns = self._context.settings.timeouts.leader_heartbeat_ns
        if now.ns > self._append_advance_ns + heartbeat_ns and standing.state is ModuleState.ACTIVE:
            raise TimeoutExpired(f"no catchup progress: appended {self._appended_position}")
        target = max(join_position, limit_position)
        window = min(self.recording.format.term_length // 4, LIVE_JOIN_WINDOW)
        if not log.has_live_destination and log.received_position >= target - window:
            log.add_live_destination()
            work += 1
        is_read = self.commit_position >= target
        return Progress(work, is_read and not log.has_catchup_destination and not standing.is_taking_snapshot)

    def read(self, now: Now, notified_position: Position) -> int | None:
        """Outside of elections: read what is recorded and committed. Returns None when the log has ended."""
        appended = self.recording.position
        if appended is None:
            appended = self.recording.stop_position
        work = self.reader.poll(now, min(appended, notified_position))
        if work == 0 and self.reader.is_image_closed:
            return None
        self._raise_commit_position(notified_position)
        return work

    def _raise_commit_position(self, notified_position: Position) -> None:
        """Set the commit position to the read position, but into the middle of an entry only if the leader reported
        that.
        """
        position = self.reader.position
        if position < notified_position:
            position = self.reader.whole_entries_position
        self._context.published.commit_position.set_max(position)

    def send_append_position(self, now: Now, flags: int) -> int:
        """Send an AppendPosition to the leader when it advanced or the interval passed. It covers only what is
        recorded.
        """
        standing = self._standing
        position = self.recording.position
        if position is None:
            position = max(self.recording.stop_position, LOG_START)
        position = max(position, self._last_append_position)
        if position > self._appended_position:
            self._appended_position = position
            self._append_advance_ns = now.ns
        has_advanced = position > self._last_append_position
        if not has_advanced and now.ns < self._last_append_send_ns + self._interval_ns:
            return 0
        leader_id = standing.leader_member_id if standing.election is None else standing.election.leader_member_id
        message = cm.AppendPosition(
            leadership_term_id=standing.leadership_term_id,
            log_position=position,
            follower_member_id=self._context.member_id,
            flags=flags,
        )
        if not self._publisher.send(now, leader_id, message):
            return 0
        self._last_append_send_ns = now.ns
        self._last_append_position = position
        return 1

    # --- both ---

    def replay(self, start_position: Position, stop_position: Position) -> LogTransfer:
        """Replay from the member's own archive. `release_abandoned` ends the replay when it is closed."""
        replay = LocalLogReplay(
            self._context,
            self._standing,
            self._services,
            self.reader,
            recording_id=self.recording.recording_id,
            start_position=start_position,
            stop_position=stop_position,
        )
        self._replays.append(replay)
        return replay

    def replicate(
        self, now: Now, leader_id: MemberId, leader_recording_id: int, start_position: Position, stop_position: Position
    ) -> LogTransfer:
        """Copy from the leader's archive into the member's recording of the log."""
        replication = LeaderLogReplication(
            self._context,
            self.recording,
            leader_member_id=leader_id,
            leader_recording_id=leader_recording_id,
            start_position=start_position,
            stop_position=stop_position,
            now=now,
        )
        self._replications.append(replication)
        return replication

    # --- archive ---

    def take_archive_events(self, now: Now) -> None:
        """Pass on errors and signals of the archive. Raises `TerminationError` when the archive is gone."""
        archive = self._context.archive
        if archive.is_closed:
            raise TerminationError(f"local archive is not connected: {archive.error}", expected=False)
        while archive.late_errors:
            error = archive.late_errors.popleft()
            self.recording.on_late_error(error)
            self.catchups.on_late_error(now, error)
            for replication in self._replications:
                replication.on_late_error(error)
        while archive.signals:
            signal = archive.signals.popleft()
            for replication in self._replications:
                replication.on_signal(signal)
            self.recording.on_signal(signal)

    def close(self) -> None:
        """Stop reading, publishing and following. The recording ends with the archive's session."""
        self.reader.detach()
        self.leader_log.close()
        self.follower_log.close()
