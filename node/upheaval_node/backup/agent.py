"""The backup agent: queries a member, copies its snapshots and log, and names them so that a member can start from
them.

Theory of operation. One state machine with one writer (`_enter`) goes round: query, snapshots, log, recording log,
wait. While the log is being followed, a round copies only what is new. Any failure of a member or an archive ends the
round; after a pause the next round begins with another member. Only the loss of the local archive or a failing disk
ends the agent. Source: Aeron Cluster, backup agent; docs/protocol.md names the differences.
"""

from random import Random
from typing import Final

from upheaval_node.archive.client import ArchiveClient
from upheaval_node.archive.recording_replication import ReplicationSource
from upheaval_node.archive.snapshot_replication import SnapshotReplication
from upheaval_node.backup.backup_counters import BackupCounters
from upheaval_node.backup.config import BackupConfig, ReplayStart
from upheaval_node.backup.leftovers import Leftovers
from upheaval_node.backup.log_copy import LogCopy
from upheaval_node.backup.log_terms import name_terms
from upheaval_node.backup.offer import Offer, is_acceptable, offer_of
from upheaval_node.backup.queries import MemberQueries, RefusedError
from upheaval_node.backup.recording_log_update import (
    RetrievedSnapshot,
    describe_copies,
    name_snapshots,
    name_start_term,
    newest_position,
    wanted_snapshots,
)
from upheaval_node.backup.states import LEGAL_MOVES, BackupState
from upheaval_node.bell import Bell
from upheaval_node.counters import Counters
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.errors import NodeError, PeerError, StorageError, TerminationError
from upheaval_node.files import layout
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.media.api import Media
from upheaval_node.ports import ErrorSink, Storage, Tracer
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.state_machine import StateMachine
from upheaval_node.steps import Steps
from upheaval_node.trace_kinds import TraceKind
from upheaval_node.types import MS, NEVER_NS, NOT_YET, NULL_POSITION, NULL_VALUE, Now

TICK_NS: Final = 10 * MS
"""How often a state that waits for others is checked, in nanoseconds."""

IDLE_TICK_NS: Final = 200 * MS
"""How often the deadline of the next query is checked, in nanoseconds: a tool in another process may change it."""


class BackupAgent:
    """Runs a backup. Its duty cycle must come before that of the archive of its process, see `log_copy`.

    Raises `DecodeError` for a damaged recording log, `UsageError` for a bad channel.
    """

    def __init__(
        self,
        media: Media,
        storage: Storage,
        counters: Counters,
        config: BackupConfig,
        tracer: Tracer,
        random: Random,
        errors: ErrorSink,
        credentials: CredentialsSupplier,
        *,
        is_alone: bool = False,
    ) -> None:
        """With `is_alone`, no other process records in the local archive."""
        self.bell: Bell | None = None
        self._media = media
        self._counters = counters
        self._config = config
        self._settings = config.settings.backup
        self._tracer = tracer
        self._random = random
        self._errors = errors
        self.recording_log = RecordingLog(storage, layout.RECORDING_LOG, self._settings.file_sync_level)
        self.published = BackupCounters(counters, config.cluster_id)
        self._queries = MemberQueries(
            media,
            config.endpoints.consensus,
            config.consensus_endpoints,
            timeout_ns=self._settings.response_timeout_ns,
            credentials=credentials,
            random=random,
            errors=errors,
        )
        self._archive = ArchiveClient(
            media, timeout_ns=config.settings.archive.message_timeout_ns, name=f"{config.name} own archive"
        )
        self._leftovers = Leftovers(self._archive, self.recording_log, is_alone=is_alone)
        self._tidying: Steps[None] | None = None
        self._is_tidy = False
        self._supplier_archive: ArchiveClient | None = None
        self._offer: Offer | None = None
        self._wanted: list[cm.BackupResponseSnapshot] = []
        self._retrieval: SnapshotReplication | None = None
        self._description: Steps[list[RetrievedSnapshot]] | None = None
        self._retrieved: list[RetrievedSnapshot] = []
        self._copy: LogCopy | None = None
        self._given_up: list[SnapshotReplication] = []
        self._states = StateMachine("backup", BackupState.BACKUP_QUERY, LEGAL_MOVES)
        self._progress_ns: int | None = None
        self._cool_down_until_ns: int | None = None
        self._next_tick_ns = 0
        self._now = NOT_YET
        self.published.query_deadline.set(NULL_VALUE)

    # --- queries ---

    @property
    def state(self) -> BackupState:
        """The state of its round."""
        return self._states.current

    @property
    def supplier_id(self) -> int:
        """The member that is being copied from, or -1."""
        return NULL_VALUE if self._offer is None else self._offer.supplier.id

    @property
    def asked_endpoint(self) -> str | None:
        """The endpoint of the member that is being queried, or None."""
        return self._queries.group.current_endpoint

    @property
    def live_log(self) -> LogCopy | None:
        """The copy of the log that is in progress, or None."""
        return self._copy if self._is_live else None

    @property
    def _is_live(self) -> bool:
        return self._copy is not None and self._copy.recording_id != NULL_VALUE

    # --- duty cycle ---

    def do_work(self, now: Now) -> int:
        """Raises `TerminationError` and `StorageError`, which end the agent; any other failure ends the round only."""
        if self._states.current is BackupState.CLOSED:
            return 0
        self._now = now
        if self._progress_ns is None:
            self._progress_ns = now.ns
        try:
            work = self._work(now)
        except (TerminationError, StorageError):
            raise
        except NodeError as error:
            self._fail(now, error)
            work = 1
        self._next_tick_ns = now.ns + (IDLE_TICK_NS if self._states.current is BackupState.BACKING_UP else TICK_NS)
        return work

    def next_deadline_ns(self) -> int:
        """The next tick, or a time-out of one of the archives."""
        if self._states.current is BackupState.CLOSED:
            return NEVER_NS
        deadline_ns = min(self._next_tick_ns, self._archive.next_deadline_ns())
        if self._supplier_archive is not None:
            deadline_ns = min(deadline_ns, self._supplier_archive.next_deadline_ns())
        return deadline_ns

    def close(self) -> None:
        """End in order. The copies stay, and the next start continues them."""
        if self._states.current is BackupState.CLOSED:
            return
        self._give_up()
        self._enter(self._now, BackupState.CLOSED, "closed")
        self._queries.close()
        self._archive.close()
        self.recording_log.close()
        self.published.close()

    def _work(self, now: Now) -> int:
        work = self._archive.do_work(now)
        if self._archive.is_closed:
            raise TerminationError(f"no archive: {self._archive.error}", expected=False)
        if self._supplier_archive is not None:
            work += self._supplier_archive.do_work(now)
        self._hear_archives()
        for answer in self._queries.poll(now):
            work += 1
            self._on_answer(now, answer)
        if self._copy is not None:
            work += self._copy.look(now)
        work += self._work_of_state(now)
        self._check_stall(now)
        return work

    def _work_of_state(self, now: Now) -> int:
        match self._states.current:
            case BackupState.BACKUP_QUERY:
                return self._query(now)
            case BackupState.SNAPSHOT_RETRIEVE:
                return self._retrieve_snapshots(now)
            case BackupState.LIVE_LOG_RECORD:
                return self._record_log(now)
            case BackupState.LIVE_LOG_REPLAY:
                return self._replay_log(now)
            case BackupState.UPDATE_RECORDING_LOG:
                return self._update(now)
            case BackupState.BACKING_UP:
                return self._follow(now)
            case BackupState.RESET_BACKUP:
                return self._cool_down(now)
            case BackupState.CLOSED:
                return 0

    def _hear_archives(self) -> None:
        """Pass signals and late errors to the parts that they concern."""
        for signal in self._archive.take_signals():
            self._leftovers.on_signal(signal)
            if self._retrieval is not None:
                self._retrieval.on_signal(signal)
        for archive in (self._archive, self._supplier_archive):
            while archive is not None and archive.late_errors:
                error = archive.late_errors.popleft()
                if self._retrieval is not None and archive is self._archive:
                    self._retrieval.on_late_error(error)
                if self._copy is not None:
                    self._copy.on_late_error(archive, error)
        supplier = self._supplier_archive
        if supplier is not None and supplier.is_closed:
            raise PeerError(f"no connection to the archive of member {self.supplier_id}: {supplier.error}")

    def _check_stall(self, now: Now) -> None:
        assert self._progress_ns is not None
        if self._copy is not None and self._copy.is_lost:
            # An election of the member is enough to cause this, so it is not an error.
            self._reset(now, f"the log of member {self.supplier_id} ended")
        elif not self._is_live and now.ns > self._progress_ns + self._settings.progress_timeout_ns:
            raise PeerError(f"no progress in {self._states.current.name}")

    # --- BACKUP_QUERY ---

    def _query(self, now: Now) -> int:
        """Delete leftovers before anything new is copied."""
        if not self._archive.is_connected:
            return 0
        if not self._is_tidy:
            if self._tidying is None:
                self._tidying = Steps(self._leftovers.delete())
            self._is_tidy = self._tidying.poll(now)
            if not self._is_tidy:
                return 0
        return self._queries.ask(now)

    def _on_answer(self, now: Now, answer: cm.BackupResponse | cm.SessionEvent) -> None:
        if isinstance(answer, cm.BackupResponse):
            self._on_backup_response(now, answer)
        elif self._states.current is BackupState.BACKUP_QUERY:
            self._on_session_event(now, answer)

    def _on_session_event(self, now: Now, event: cm.SessionEvent) -> None:
        match event.code:
            case cm.EventCode.ERROR | cm.EventCode.AUTHENTICATION_REJECTED:
                raise RefusedError(f"{cm.EventCode(event.code).name}: {event.detail}")
            case cm.EventCode.REDIRECT:
                self._refuse_member(now, "redirected")
            case _:
                pass

    def _refuse_member(self, now: Now, reason: str) -> None:
        """Query other members first, after the pause; a refusal is not an error."""
        self._queries.group.exclude_current()
        self._reset(now, reason)

    def _on_backup_response(self, now: Now, response: cm.BackupResponse) -> None:
        """Only the answer to the present query counts; Aeron resets for other answers, too."""
        if self._states.current is not BackupState.BACKUP_QUERY or not self._queries.is_ours(response.correlation_id):
            return
        offer = offer_of(response)
        member_id, leader_id = offer.supplier.id, offer.leader_member_id
        self._tracer.emit(
            now,
            TraceKind.BACKUP_RESPONSE,
            member_id=member_id,
            leader_member_id=leader_id,
            leadership_term_id=offer.log_leadership_term_id,
            snapshots=len(offer.snapshots),
        )
        if not is_acceptable(self._config.source, leader_id, member_id):
            self._refuse_member(now, f"member {member_id} is not a {self._config.source.value}")
            return
        if self._offer is not None and self.supplier_id != member_id:
            self._reset(now, f"member {member_id} answered instead of {self.supplier_id}")
            return
        if self._offer is not None and self._offer.log_recording_id != offer.log_recording_id:
            self._reset(now, f"member {member_id} has another log recording")
            return
        self._offer = offer
        self._wanted = wanted_snapshots(self.recording_log, offer)
        if self._supplier_archive is None:
            self._supplier_archive = ArchiveClient(
                self._media,
                control_channel=str(Channel("tcp", {"endpoint": offer.supplier.endpoints.archive})),
                timeout_ns=self._config.settings.archive.message_timeout_ns,
                name=self._config.name,
            )
        self._progress_ns = now.ns
        wants = bool(self._wanted)
        self._enter(now, BackupState.SNAPSHOT_RETRIEVE if wants else BackupState.LIVE_LOG_RECORD, "offer")

    # --- SNAPSHOT_RETRIEVE ---

    def _retrieve_snapshots(self, now: Now) -> int:
        assert self._offer is not None
        if self._retrieval is None:
            self._retrieval = SnapshotReplication(
                self._archive,
                self._counters,
                ReplicationSource(
                    str(Channel("tcp", {"endpoint": self._offer.supplier.endpoints.archive})),
                    replication_channel=str(Channel("tcp", {"endpoint": self._config.endpoints.catchup})),
                ),
                [snapshot.recording_id for snapshot in self._wanted],
                progress_timeout_ns=self._settings.replication_progress_timeout_ns,
            )
        # The snapshot replication has its own time-out.
        self._progress_ns = now.ns
        work = self._retrieval.poll(now)
        if not self._retrieval.is_complete:
            return work
        if self._description is None:
            self._description = Steps(describe_copies(self._archive, self._wanted, self._retrieval.recordings))
        if not self._description.poll(now):
            return work
        self._retrieved = self._description.result
        self._retrieval = self._description = None
        self._enter(now, BackupState.LIVE_LOG_RECORD, "snapshots retrieved")
        return work + 1

    # --- LIVE_LOG_RECORD, LIVE_LOG_REPLAY ---

    def _record_log(self, now: Now) -> int:
        if self._copy is None:
            self._copy = LogCopy(
                self._media,
                self._counters,
                self._archive,
                self._config.endpoints.catchup,
                self._random,
                extends=self.recording_log.find_last_term_recording_id(),
                on_terms=self._on_terms,
            )
        if not self._is_live and not self._copy.record(now):
            return 0
        self._enter(now, BackupState.LIVE_LOG_REPLAY, "live" if self._is_live else "ready to record")
        return 1

    def _replay_log(self, now: Now) -> int:
        copy, offer, archive = self._copy, self._offer, self._supplier_archive
        assert copy is not None
        assert offer is not None
        assert archive is not None
        if not self._is_live:
            is_replayed = copy.replay(
                now,
                archive,
                recording_id=offer.log_recording_id,
                first_position=self._first_position(),
                limit_counter_id=offer.commit_position_counter_id,
            )
            if not is_replayed:
                return 0
            # Terms that have arrived by now are named before the copy counts.
            copy.look(now)
        self._enter(now, BackupState.UPDATE_RECORDING_LOG, f"recording {copy.recording_id}")
        return 1

    def _first_position(self) -> int:
        """The first position of a copy that does not continue an earlier one."""
        if self._config.replay_start is ReplayStart.LATEST_SNAPSHOT:
            return newest_position(self._retrieved)
        return NULL_POSITION

    def _on_terms(self, now: Now, recording_id: int, events: list[cm.NewLeadershipTermEvent]) -> None:
        """The first term that is named is the last one of the copy: from then on a restart goes on with it."""
        copy, offer, log = self._copy, self._offer, self.recording_log
        assert copy is not None
        assert offer is not None
        is_first = log.find_last_term() is None
        is_named = name_terms(log, recording_id, events) > 0
        if is_first and copy.start_position > 0:
            is_named |= name_start_term(
                log,
                recording_id=recording_id,
                start_position=copy.start_position,
                retrieved=self._retrieved,
                offer=offer,
                timestamp=now.epoch_ms,
            )
        last = log.find_last_term()
        if is_named and last is not None:
            self._tracer.emit(
                now,
                TraceKind.BACKUP_TERM,
                recording_id=recording_id,
                leadership_term_id=last.leadership_term_id,
                term_base_log_position=last.term_base_log_position,
            )

    # --- UPDATE_RECORDING_LOG, BACKING_UP ---

    def _update(self, now: Now) -> int:
        retrieved, self._retrieved = self._retrieved, []
        if retrieved:
            name_snapshots(self.recording_log, retrieved)
            self.recording_log.force(2 if self._settings.file_sync_level else 0)
            self.published.snapshots_retrieved.increment()
        self._wanted = []
        self._show_position()
        self.published.query_deadline.set(now.epoch_ms + self._settings.query_interval_ns // MS)
        self._enter(now, BackupState.BACKING_UP, f"{len(retrieved)} snapshots named")
        return 1

    def _follow(self, now: Now) -> int:
        work = self._show_position()
        if now.epoch_ms > self.published.query_deadline.get():
            self._queries.begin(now)
            self._enter(now, BackupState.BACKUP_QUERY, "query is due")
            work += 1
        return work

    def _show_position(self) -> int:
        position = None if self._copy is None else self._copy.position
        return int(position is not None and self.published.live_log_position.set_max(position))

    # --- RESET_BACKUP ---

    def _fail(self, now: Now, error: NodeError) -> None:
        """Count and report the error, and give up the round.

        A refusal is a separate kind of error, so that it is reported even if members were silent before.
        """
        self.published.errors.increment()
        self._errors.report(now, "backup refused" if isinstance(error, RefusedError) else "backup", str(error))
        if self._states.current is not BackupState.RESET_BACKUP:
            self._reset(now, str(error))

    def _reset(self, now: Now, reason: str) -> None:
        self._enter(now, BackupState.RESET_BACKUP, reason)
        self._cool_down_until_ns = now.ns + self._settings.cool_down_interval_ns
        self._give_up()

    def _give_up(self) -> None:
        """Forget the member and end everything that was begun with it. An excluded endpoint stays excluded."""
        self._queries.forget()
        self._queries.group.close_current()
        if self._retrieval is not None:
            self._retrieval.close()
            self._given_up.append(self._retrieval)
        self._retrieval = None
        if self._description is not None:
            self._description.close()
        self._description = None
        if self._copy is not None:
            self._copy.close()
        self._copy = None
        if self._supplier_archive is not None:
            self._supplier_archive.close()
        self._supplier_archive = None
        self._offer = None
        self._wanted, self._retrieved = [], []
        if self._tidying is not None:
            self._tidying.close()
        self._tidying, self._is_tidy = None, False

    def _cool_down(self, now: Now) -> int:
        self._progress_ns = now.ns
        self._given_up = [replication for replication in self._given_up if not replication.release()]
        assert self._cool_down_until_ns is not None
        if now.ns < self._cool_down_until_ns:
            return 0
        self._enter(now, BackupState.BACKUP_QUERY, "cooled down")
        return 1

    def _enter(self, now: Now, state: BackupState, reason: str) -> None:
        self._states.enter(state)
        self._queries.forget()
        self.published.state.set(state)
        self._tracer.emit(now, TraceKind.BACKUP_STATE, state=state.name, reason=reason, supplier_id=self.supplier_id)
