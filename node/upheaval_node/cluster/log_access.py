"""The operations of an election on the log: leave, cut, copy, read, publish and follow it.

The election decides; the module behind this interface does everything that touches a stream, the archive or the
services. A lengthy operation is polled: the election calls it once per tick until its answer is no longer "not yet".
The answer is the only result; the election writes nothing back. A failing operation raises a `NodeError`, which sends
the election back to INIT.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from upheaval_node.types import MemberId, Now, Position, TermId


class Progress(NamedTuple):
    """The work of one tick of a lengthy operation, and whether the operation is over."""

    work: int
    is_done: bool


class LogTransfer(Protocol):
    """The transfer of a part of the log.

    Either the module and the services read it from the member's own recording, or the archive copies it from the
    leader's recording.
    """

    @property
    def position(self) -> Position:
        """The position up to which the log was read or copied."""

    @property
    def is_done(self) -> bool:
        """Whether all was read and no snapshot is in progress, or the copy has ended and its recording has stopped."""

    def do_work(self, now: Now) -> int:
        """Advance as far as possible.

        Raises `PeerError` when a replay ends too early, `TimeoutExpired` when a copy does not advance within the leader
        heartbeat time-out.
        """

    def close(self) -> None:
        """End the transfer. One that is not over is abandoned."""


class LogAccess(Protocol):
    """The log of a member as its election sees it."""

    @property
    def commit_position(self) -> Position:
        """The value of the commit counter."""

    @property
    def recording_id(self) -> int:
        """The recording of the log in the member's archive, -1 without one."""

    def leave_term(self, now: Now, log_position: Position) -> Position | None:
        """Leave the old term: close ingress, log reader, publication and recording, and roll back uncommitted work.

        Returns None while in progress, then the stop position of the log recording (-1 when there never was a
        recording). Also abandons a follower log subscription, local replays and catch-up replays that are still open.
        """

    def truncate(self, now: Now, position: Position) -> bool:
        """Cut the member's log recording at `position`. Returns whether the archive has done so."""

    def replay(self, start_position: Position, stop_position: Position) -> LogTransfer:
        """Have the module and the services read a part of the member's own recording."""

    def replicate(
        self, now: Now, leader_id: MemberId, leader_recording_id: int, start_position: Position, stop_position: Position
    ) -> LogTransfer:
        """Copy a slice of the leader's recording. As soon as the copy's id is known, it is the log's recording."""

    # --- leader ---

    def publish(self, position: Position) -> int:
        """Create the log publication at `position`, with the members as destinations. Returns its session id."""

    def join_as_leader(self, now: Now, leadership_term_id: TermId, log_position: Position, *, is_startup: bool) -> bool:
        """Record the log publication and have the services join it. Returns whether both are done."""

    def commit(self, now: Now, leadership_term_id: TermId, append_position: Position, quorum_position: Position) -> int:
        """Raise the commit counter. Sends a CommitPosition to all others when it advanced or the interval passed."""

    def append_term_event(self, now: Now, leadership_term_id: TermId, log_position: Position) -> bool:
        """Append the term's first log entry. Returns False under back pressure."""

    # --- follower ---

    def follow(self, log_session_id: int, log_position: Position, *, catching_up: bool) -> str | None:
        """Subscribe to the leader's log from `log_position` on, as a replay or live, unless already subscribed.

        Returns the endpoint for the leader's replay, None while the port is not known.
        """

    def join_as_follower(self, now: Now, start: Position, name_term: Callable[[], None], *, is_startup: bool) -> bool:
        """Join the leader's log. Returns whether the image is there, recorded and joined by the services.

        `name_term` of the first call is called before the log's recording can grow. A log without a recording calls it
        as soon as it has one, and before any other component knows of the recording.

        Raises when the image joined at another position than `start` or the channel failed. While there is no image it
        returns False, and its only effect is to start the clock of append progress.
        """

    def catch_up(self, now: Now, limit_position: Position, join_position: Position) -> Progress:
        """Read the replayed log up to the limit, report the position, and add the live log when its position is near.

        Done when everything up to the limit and `join_position` is read and the replay is over. Raises when there is no
        progress.
        """
