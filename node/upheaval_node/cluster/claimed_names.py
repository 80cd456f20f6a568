"""Checks that the sender of a consensus message is the member that the message names, as far as certificates show.

Over TLS each connection has the name in the certificate of its peer (`name@host:port`). Without TLS no name is known
and no message is refused. Knows no streams.
"""

from typing import Final

from upheaval_node.protocol import cluster_messages as cm
from upheaval_node.protocol.message import Message
from upheaval_node.tls_files import BACKUP, MEMBER, STANDBY, allows, member_name, split_name

_SENDERS: Final[dict[type[Message], str]] = {
    cm.CanvassPosition: "follower_member_id",
    cm.RequestVote: "candidate_member_id",
    cm.Vote: "follower_member_id",
    cm.NewLeadershipTerm: "leader_member_id",
    cm.AppendPosition: "follower_member_id",
    cm.CommitPosition: "leader_member_id",
    cm.CatchupPosition: "follower_member_id",
    cm.TerminationAck: "member_id",
}
"""The field in which a message names its sender. Other messages between members name no member, or their addressee."""

_OF_BACKUPS: Final = (cm.BackupQuery, cm.HeartbeatRequest, cm.StandbySnapshot)


def contradiction(peer: str, message: Message) -> str:
    """Why a message cannot come from the connection of `peer`; empty when it can."""
    name, _ = split_name(peer)
    if not name:
        return ""
    if isinstance(message, _OF_BACKUPS):
        wanted: tuple[str, ...] = (BACKUP, STANDBY)
    elif isinstance(message, cm.ChallengeResponse):
        # From a backup, or from a client by way of the follower that it is connected to.
        wanted = (MEMBER, BACKUP, STANDBY)
    elif (field := _SENDERS.get(type(message))) is not None:
        wanted = (member_name(getattr(message, field)),)
    else:
        wanted = (MEMBER,)
    return "" if allows(wanted, name) else f"{type(message).__name__} of {' or '.join(wanted)} comes from {name}"
