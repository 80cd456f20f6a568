"""What an election asks of the log: leave it, cut it, copy it, read it, publish it, follow it.

The election decides; everything that touches a stream, the archive or the services is done by the module on the other
side. Whatever takes time is polled: such an operation is called once a tick until its answer is no longer "not yet".
What it brought is its answer; the election writes nothing back. An operation that fails raises a `NodeError`, which
sends the election back to INIT.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from upheaval_node.types import MemberId, Now, Position, TermId


class Progress(NamedTuple):
    """What one tick of something that takes time did, and whether it is over."""

    work: int
    is_done: bool


class LogTransfer(Protocol):
    """A part of the log on its way: read from the own recording into module and services, or copied from the leader's
    recording into the own archive.
    """

    @property
    def position(self) -> Position:
        """How far the log was read, or the destination recording has grown."""

    @property
    def is_done(self) -> bool:
        """All of it was read and no snapshot is in progress, or the copy has ended and its recording stopped."""

    def do_work(self, now: Now) -> int:
        """Go on as far as possible.

        Raises `PeerError` when a replay ends too early, `TimeoutExpired` when a copy does not advance within the leader
        heartbeat time-out.
        """

    def close(self) -> None:
        """Give it up unless it is over."""


class LogAccess(Protocol):
    """The log of a member as its election sees it."""

    @property
    def commit_position(self) -> Position:
        """Value of the commit counter."""

    @property
    def recording_id(self) -> int:
        """Recording of the log in the own archive, -1 while there is none."""

    def leave_term(self, now: Now, log_position: Position) -> Position | None:
        """Leave the old term: close ingress, log reader, publication and recording, roll back uncommitted work.

        Returns None while in progress, then the stop position of the log recording (-1 when there never was one).
        Also abandons a follower log subscription, local replays and catch-up replays that are still open.
        """

    def truncate(self, now: Now, position: Position) -> bool:
        """Cut the own log recording at `position`; True when the archive has done it."""

    def replay(self, start_position: Position, stop_position: Position) -> LogTransfer:
        """Have module and services read a part of the own recording."""

    def replicate(
        self, now: Now, leader_id: MemberId, leader_recording_id: int, start_position: Position, stop_position: Position
    ) -> LogTransfer:
        """Copy a slice of the leader's recording; it is the log's recording from the time on when it is known."""

    # --- leader ---

    def publish(self, position: Position) -> int:
        """Create the log publication at `position`, with the members as destinations; returns its session id."""

    def join_as_leader(self, now: Now, leadership_term_id: TermId, log_position: Position, *, is_startup: bool) -> bool:
        """Record the log publication, have the services join it; True when recording and services are there."""

    def commit(self, now: Now, leadership_term_id: TermId, append_position: Position, quorum_position: Position) -> int:
        """Raise the commit counter; CommitPosition to all others when it advanced or the interval passed."""

    def append_term_event(self, now: Now, leadership_term_id: TermId, log_position: Position) -> bool:
        """Append the term's first log entry; False when the log is back-pressured."""

    # --- follower ---

    def follow(self, log_session_id: int, log_position: Position, *, catching_up: bool) -> str | None:
        """Subscribe, unless that is done, to the leader's log from `log_position` on: to a replay of it, or live.

        Returns where the leader shall replay to, None while the port is not known.
        """

    def join_as_follower(self, now: Now, start: Position, name_term: Callable[[], None], *, is_startup: bool) -> bool:
        """True when the image is there, recorded and joined by the services.

        `name_term` of the first call is called before the log's recording can grow, or for a log without a recording
        as soon as it has one, and before any other component knows of it.

        Raises when the image joined at another position than `start` or the channel failed. While no image
        is there it returns False and has no other effect than that the clock of append progress starts.
        """

    def catch_up(self, now: Now, limit_position: Position, join_position: Position) -> Progress:
        """Consume the replayed log up to the limit, report it, and turn to the live log when that is near.

        Done when everything up to the limit and `join_position` is consumed and the replay is over. Raises without
        progress.
        """
