"""What an election asks of the consensus module that owns it.

The election decides; everything that touches a stream, the archive or the services is done by the module behind this
seam. Whatever takes time is polled: such a method is called once a tick until its answer is no longer "not yet".
An operation that fails raises a `NodeError`, which sends the election back to INIT.
"""

from collections.abc import Callable, Container
from typing import Protocol

from upheaval_node.cluster.members import ClusterMember
from upheaval_node.files.node_state import NodeState
from upheaval_node.files.recording_log import RecordingLog
from upheaval_node.protocol.codec import Message
from upheaval_node.types import Now


class LogReplay(Protocol):
    """A replay of a part of the member's own log recording into module and services."""

    @property
    def position(self) -> int:
        """How far the log was consumed."""
        ...

    @property
    def is_done(self) -> bool:
        """The stop position is reached and no snapshot is in progress."""
        ...

    def do_work(self, now: Now) -> int: ...

    def close(self) -> None: ...


class LogReplication(Protocol):
    """A copy of a slice of the leader's log recording into the own archive."""

    @property
    def position(self) -> int:
        """How far the destination recording has grown."""
        ...

    @property
    def recording_id(self) -> int:
        """The destination recording, -1 while it is not known."""
        ...

    @property
    def is_done(self) -> bool:
        """The archive signalled that the replication ended and the recording stopped."""
        ...

    def do_work(self, now: Now) -> int:
        """Raises `TimeoutExpired` when the position does not advance within the leader heartbeat time-out."""
        ...

    def close(self) -> None: ...


class ElectionAgent(Protocol):
    """The consensus module as its election sees it."""

    members: dict[int, ClusterMember]
    member_id: int
    node_state: NodeState
    recording_log: RecordingLog
    leadership_term_id: int
    """The module's term: that of the last NewLeadershipTermEvent, or of the last election that it completed."""
    log_recording_id: int
    """Recording of the log in the own archive, -1 while there is none; the election sets it after a replication."""
    time_of_last_leader_update_ns: int
    app_version: int

    @property
    def commit_position(self) -> int:
        """Value of the commit counter."""
        ...

    @property
    def is_taking_snapshot(self) -> bool: ...

    def quorum_position(self, now: Now, log_terms: Container[int]) -> int:
        """How far a quorum of active members has recorded the log of these terms."""
        ...

    def cluster_time(self, now: Now) -> int:
        """The epoch time in the cluster's unit, for messages and log entries."""
        ...

    def send(self, now: Now, member_id: int, message: Message) -> bool:
        """Send on the consensus stream; False when it could not be handed over (not connected, back pressure)."""
        ...

    def on_election_state(self, now: Now, state: int, role: int, reason: str) -> None:
        """The election entered `state`: publish counters, emit a trace event, adopt `role`."""
        ...

    # --- INIT ---

    def prepare_for_new_leadership(self, now: Now, log_position: int) -> int | None:
        """Leave the old term: close ingress, log reader, publication and recording, roll back uncommitted work.

        Returns None while in progress, then the stop position of the log recording (-1 when there never was one).
        Also abandons a follower log subscription, local replays and catch-up replays that are still open.
        """
        ...

    def truncate_log(self, now: Now, position: int) -> bool:
        """Cut the own log recording at `position`; True when the archive has done it."""
        ...

    # --- leader ---

    def open_log_publication(self, position: int) -> int:
        """Create the log publication at `position`, with the members as destinations; returns its session id."""
        ...

    def join_log_as_leader(self, now: Now, leadership_term_id: int, log_position: int, is_startup: bool) -> bool:
        """Record the log publication, have the services join it; True when recording and services are there.

        The module's leadership_term_id and log_recording_id are set when it returns True.
        """
        ...

    def update_leader_position(self, now: Now, append_position: int, quorum_position: int) -> int:
        """Raise the commit counter; CommitPosition to all others when it advanced or the interval passed."""
        ...

    def append_new_leadership_term_event(self, now: Now, leadership_term_id: int, log_position: int) -> bool:
        """Append the term's first log entry; False when the log is back-pressured."""
        ...

    # --- follower ---

    def open_follower_log(self, log_session_id: int, log_position: int) -> None:
        """Subscribe to the leader's log stream, to be joined at `log_position`; no destination yet."""
        ...

    @property
    def is_follower_log_open(self) -> bool: ...

    def add_catchup_destination(self) -> None: ...

    @property
    def catchup_endpoint(self) -> str | None:
        """Where the leader shall replay to, None while the port is not known."""
        ...

    @property
    def has_catchup_destination(self) -> bool:
        """False again once a StopCatchup removed it."""
        ...

    def add_live_log_destination(self) -> None: ...

    @property
    def has_live_log_destination(self) -> bool: ...

    def join_log_as_follower(
        self, now: Now, log_position: int, is_leader_startup: bool, name_term: Callable[[], None]
    ) -> bool:
        """True when the image is there, recorded and joined by the services.

        `name_term` of the first call is called before the log's recording can grow, or for a log without a recording
        as soon as it has one, and before anybody is told of it.

        Raises when the image joined at another position than `log_position` or the channel failed. While no image
        is there it returns False and has no other effect.
        """
        ...

    @property
    def follower_log_position(self) -> int:
        """How far the follower's log image was received; -1 without an image."""
        ...

    def catchup_initiated(self, now: Now) -> None:
        """CatchupPosition was sent: the clock of append progress starts."""
        ...

    def catchup_poll(self, now: Now, limit_position: int) -> int:
        """Consume the log up to the limit, report AppendPosition with the CATCHUP flag; raises without progress."""
        ...

    # --- both ---

    def new_log_replay(self, start_position: int, stop_position: int) -> LogReplay: ...

    def new_log_replication(
        self, now: Now, leader_member_id: int, leader_recording_id: int, stop_position: int
    ) -> LogReplication: ...

    def election_complete(self, now: Now) -> None:
        """The election is CLOSED: adopt leader, term and positions, open ingress, drop the election."""
        ...
