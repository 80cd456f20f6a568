"""What this member heard last of a leader. Knows no message."""

from upheaval_node.types import LOG_START, NEVER_NS, Now, Position


class LeaderContact:
    """Written as messages of a leader come in; read by an election and by the parts that wait for the leader."""

    def __init__(self) -> None:
        self.heard_ns = 0
        self.commit_position = LOG_START
        """How far the log is committed, as a leader, a snapshot or the last election said."""

        self.disconnected_ns = NEVER_NS
        """Since when the leader's log has no connection and nothing was heard; `NEVER_NS` while it has one."""

    def heard(self, now: Now) -> None:
        """A leader may still be there."""
        self.heard_ns = now.ns
        self.disconnected_ns = NEVER_NS

    def on_connection(self, now: Now, *, is_there: bool) -> None:
        """Whether the leader's log has a connection."""
        self.disconnected_ns = NEVER_NS if is_there else min(self.disconnected_ns, now.ns)

    def on_commit_position(self, position: Position) -> None:
        """The log is committed that far."""
        self.commit_position = max(self.commit_position, position)
