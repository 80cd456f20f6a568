"""On the leader: replays of the log's recording to followers that catch up, at most one per follower.

A replay has the stream and session ids of the live log, so that the follower sees one stream. Source: Aeron Cluster,
catch-up within the current term.
"""

from upheaval_node.archive.calls import LateError, PendingCall
from upheaval_node.cluster.members import ClusterMember
from upheaval_node.cluster.module_context import ModuleContext
from upheaval_node.errors import UsageError
from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.channel import Channel
from upheaval_node.protocol.constants import LOG_STREAM_ID
from upheaval_node.steps import StepGenerator
from upheaval_node.types import MAX_POSITION, NULL_VALUE, Now


class CatchupReplays:
    """The replays requested from the archive, by member id."""

    def __init__(self, context: ModuleContext) -> None:
        self._context = context
        self._calls: dict[int, PendingCall] = {}
        # Replays that were given up before the archive had answered with their id.
        self._orphans: list[PendingCall] = []

    def has(self, member_id: int) -> bool:
        """Whether a replay for the member is running or requested."""
        return member_id in self._calls

    def start(self, now: Now, message: cm.CatchupPosition, *, recording_id: int, session_id: int) -> None:
        """Start an endless replay from the follower's position, unless the follower already has one."""
        member = self._context.members.get(message.follower_member_id)
        if member is None or member.id in self._calls:
            return
        try:
            channel = Channel("tcp").with_(
                endpoint=message.catchup_endpoint,
                session_id=session_id,
                linger=0,
                eos="false",
                alias=f"catchup-followerId-{member.id}",
            )
        except UsageError as error:
            self._context.report(now, "catch-up", str(error))
            return
        call = self._context.archive.replay(
            recording_id, message.log_position, MAX_POSITION, str(channel), LOG_STREAM_ID
        )
        self._calls[member.id] = call

    def poll(self, now: Now) -> None:
        """Process the archive's answers. A refused replay is dropped; the follower will time out."""
        for member_id, call in list(self._calls.items()):
            member = self._context.members[member_id]
            if call.done and member.catchup_replay_session_id == NULL_VALUE:
                if call.error is None:
                    member.catchup_replay_session_id = call.relevant_id
                else:
                    self._forget(now, member_id, call.error)
        for call in [call for call in self._orphans if call.done]:
            self._orphans.remove(call)
            if call.error is None:
                self._context.archive.stop_replay(call.relevant_id)

    def on_late_error(self, now: Now, error: LateError) -> None:
        """Drop a replay that the archive ended with an error; the follower will time out."""
        for member_id, call in list(self._calls.items()):
            if call.correlation_id == error.correlation_id:
                self._forget(now, member_id, error.text)

    def stop(self, member_id: int) -> PendingCall | None:
        """End the member's replay, if there is one. Returns the archive call to wait for, None without one."""
        call = self._calls.pop(member_id, None)
        if call is None:
            return None
        _clear(self._context.members[member_id])
        if not call.done:
            self._orphans.append(call)
            return call
        return None if call.error is not None else self._context.archive.stop_replay(call.relevant_id)

    def stop_all(self, now: Now) -> StepGenerator[None]:
        """End all replays. The steps end when the archive has done so."""
        waiting = [call for member_id in list(self._calls) if (call := self.stop(member_id)) is not None]
        while self._orphans or any(not call.done for call in waiting):
            self.poll(now)
            now = yield

    def _forget(self, now: Now, member_id: int, reason: str) -> None:
        self._calls.pop(member_id, None)
        _clear(self._context.members[member_id])
        self._context.report(now, "catch-up", f"replay to member {member_id}: {reason}")


def _clear(member: ClusterMember) -> None:
    member.catchup_replay_session_id = NULL_VALUE
