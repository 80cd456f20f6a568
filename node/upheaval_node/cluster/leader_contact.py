"""The last contact with a leader. Knows no message."""

from upheaval_node.types import LOG_START, NEVER_NS, Now, Position


class LeaderContact:
    """Written when messages of a leader arrive; read by an election and by the parts that wait for the leader."""

    def __init__(self) -> None:
        self.heard_ns = 0
        self.commit_position = LOG_START
        """The highest commit position of a leader's messages, a snapshot and the last election."""

        self.disconnected_ns = NEVER_NS
        """Since when the leader's log has no connection and no message has come; `NEVER_NS` while it has a
        connection.
        """

    def heard(self, now: Now) -> None:
        """Note a sign that there may still be a leader."""
        self.heard_ns = now.ns
        self.disconnected_ns = NEVER_NS

    def on_connection(self, now: Now, *, is_there: bool) -> None:
        """Note whether the leader's log has a connection."""
        self.disconnected_ns = NEVER_NS if is_there else min(self.disconnected_ns, now.ns)

    def on_commit_position(self, position: Position) -> None:
        """Note that the log is committed up to `position`."""
        self.commit_position = max(self.commit_position, position)
