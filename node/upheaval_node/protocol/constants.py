"""What both ends of a conversation must know beforehand: stream ids, channels, versions and limits of the protocols.

Values are the defaults of Aeron Cluster and Aeron Archive (their `Configuration` classes), unless noted. The versions
of file formats are in the modules that write the files.
"""

from typing import Final

# --- streams: cluster ---------------------------------------------------------------------------------------------

LOG_STREAM_ID: Final = 100
INGRESS_STREAM_ID: Final = 101
EGRESS_STREAM_ID: Final = 102
REPLAY_STREAM_ID: Final = 103
"""Replays of the log and of snapshots, within a member."""

SERVICE_STREAM_ID: Final = 104
"""From the consensus module to its services."""

MODULE_STREAM_ID: Final = 105
"""From the services to their consensus module."""

SERVICE_SNAPSHOT_STREAM_ID: Final = 106
MODULE_SNAPSHOT_STREAM_ID: Final = 107
CONSENSUS_STREAM_ID: Final = 108
STANDBY_RESPONSE_STREAM_ID: Final = 118
"""Where members answer a standby (not Aeron's: there, the stream is configured): another stream than that of the backup
agent beside it, whose answers have ids of their own."""

# --- streams: archive ---------------------------------------------------------------------------------------------

ARCHIVE_CONTROL_STREAM_ID: Final = 10
ARCHIVE_RESPONSE_STREAM_ID: Final = 20
RECORDING_EVENTS_STREAM_ID: Final = 30
MODULE_ARCHIVE_RESPONSE_STREAM_ID: Final = 120
"""The archive's answers to the consensus module of cluster 0; each further cluster adds 100."""

SERVICE_ARCHIVE_RESPONSE_STREAM_ID: Final = 130
"""The archive's answers to service 0 of cluster 0; each service adds 1, each further cluster 100."""

STREAM_NAMES: Final = {
    ARCHIVE_CONTROL_STREAM_ID: "archive control",
    LOG_STREAM_ID: "log",
    INGRESS_STREAM_ID: "ingress",
    EGRESS_STREAM_ID: "egress",
    REPLAY_STREAM_ID: "log replay",
    SERVICE_STREAM_ID: "service control",
    MODULE_STREAM_ID: "module control",
    CONSENSUS_STREAM_ID: "consensus",
}
"""Streams with a fixed id. Others are egress, or answers of an archive, as their messages show."""

# --- channels -----------------------------------------------------------------------------------------------------

SERVICE_CONTROL_CHANNEL: Final = "aeron:ipc?term-length=128k"
"""Between a consensus module and its services."""

ARCHIVE_LOCAL_CONTROL_CHANNEL: Final = "aeron:ipc"

# --- versions -----------------------------------------------------------------------------------------------------


def semantic_version(major: int, minor: int) -> int:
    """A version without a patch as one number, as messages and files carry it (Agrona: SemanticVersion)."""
    return major << 16 | minor << 8


def version_text(version: int) -> str:
    """A semantic version as people write it."""
    return f"{version >> 16 & 0xFF}.{version >> 8 & 0xFF}.{version & 0xFF}"


CLUSTER_PROTOCOL_VERSION: Final = semantic_version(0, 3)
"""Between cluster and clients, backups and standbys; members of another major version do not understand each other."""

CONSENSUS_PROTOCOL_VERSION: Final = semantic_version(1, 0)
"""Between members, carried by CanvassPosition and RequestVote."""

ARCHIVE_PROTOCOL_VERSION: Final = semantic_version(1, 12)
"""Between an archive and its clients."""

# --- limits -------------------------------------------------------------------------------------------------------

MAX_PRINCIPAL_LENGTH: Final = 4096
"""Bytes by which an authenticator names a client (Aeron: ENCODED_PRINCIPAL_MAX_LENGTH)."""

MAX_SERVICES: Final = 10
"""Of one member. Not Aeron's (127): each has a range of counter ids of its own."""
