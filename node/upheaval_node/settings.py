"""Settings of a member: Aeron's defaults, and the named `test` profile that demo, scenarios and tests use.

All durations are in nanoseconds, all lengths in bytes. Settings are frozen values, passed to where they are used.
"""

from dataclasses import dataclass, field, replace

from upheaval_node.errors import UsageError
from upheaval_node.suggestions import did_you_mean
from upheaval_node.types import MS, S

KIB = 1024
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MediaSettings:
    """Timers and lengths of publications and images (frames reference: sender and receiver behaviour)."""

    heartbeat_interval_ns: int = 100 * MS
    image_liveness_timeout_ns: int = 10 * S
    connection_timeout_ns: int = 5 * S
    redial_interval_ns: int = 100 * MS
    receiver_window_length: int = 2 * MIB
    term_length: int = 16 * MIB
    ipc_term_length: int = 16 * MIB
    mtu: int = 1408
    retention_length: int = 4 * MIB
    max_connections: int = 1024
    """That are accepted on one address; each may bring 64 streams and hold one begun frame."""

    max_connections_of_peer: int = 768
    """Of them those of one host, or of one name in certificates: no peer can take all of them."""


@dataclass(frozen=True, slots=True)
class ArchiveSettings:
    """Of an archive: how it records, what it waits for, how much it does at a time."""

    segment_length: int = 128 * MIB
    file_sync_level: int = 0
    catalog_capacity: int = MIB
    control_term_length: int = 64 * KIB
    message_timeout_ns: int = 10 * S
    connect_timeout_ns: int = 5 * S
    max_recordings: int = 20
    max_replays: int = 20
    io_max_length: int = MIB
    record_checksum: str = ""
    """`CRC-32` or `CRC-32C` writes it into each recorded frame; empty for none."""

    replay_checksum: str = ""
    """The same verifies it whenever a recording is read."""


@dataclass(frozen=True, slots=True)
class ClusterTimeouts:
    """Intervals and time-outs of the consensus module and its elections."""

    startup_canvass_ns: int = 60 * S
    election_ns: int = S
    election_status_interval_ns: int = 100 * MS
    leader_heartbeat_ns: int = 10 * S
    leader_heartbeat_interval_ns: int = 200 * MS
    session_ns: int = 10 * S
    termination_ns: int = 10 * S
    leader_disconnect_ns: int = 0
    """How long its connection from the leader may be gone before a follower gives the leader up; 0: as long as the
    heartbeat time-out, as in Aeron."""

    def __post_init__(self) -> None:
        if self.startup_canvass_ns // self.leader_heartbeat_ns < 2:
            raise UsageError("startup canvass time-out must be at least twice the leader heartbeat time-out")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Of consensus module and services; all members of a cluster have the same but for the appointed leader."""

    cluster_id: int = 0
    timeouts: ClusterTimeouts = field(default_factory=ClusterTimeouts)
    file_sync_level: int = 0
    log_term_length: int = 64 * MIB
    log_mtu: int = 1408
    max_sessions: int = 10
    max_pending_sessions: int = 0
    """Clients that have asked for a session and do not have it yet; 0 for as many as sessions."""

    max_pending_sessions_of_peer: int = 0
    """Of them those of one host, or of one name in certificates; 0 for no such limit."""
    service_count: int = 1
    appointed_leader_id: int = -1
    app_version: int = 1
    ingress_fragment_limit: int = 50
    log_fragment_limit: int = 50
    authorisation: str = ""
    """Who may send requests other than messages: those with a role for it in the credentials file `roles:FILE`,
    `ALLOW_ALL`, `DENY_ALL`, `package.module:Class` of an `authentication.AuthorisationService`, or empty for backups
    only."""

    authenticator: str = ""
    """Who may open a session: those in the credentials file `credentials:FILE` (or `credentials:env:NAME`), whom
    `package.module:Class` of an `authentication.Authenticator` accepts, or empty for everyone."""

    time_unit: str = "MILLIS"
    """What log entries and timers count in: `MILLIS`, `MICROS` or `NANOS`, the same on all members for ever."""

    snapshot_duration_threshold_ns: int = S
    """Snapshots that take longer are counted, those of each service and those of the cluster."""

    snapshot_term_length: int = 16 * MIB
    """An eighth of it bounds one message of a snapshot."""

    accept_standby_snapshots: bool = False
    """Whether notices of snapshots that a standby took are written into the recording log."""

    standby_snapshot_delay_ns: int = 0
    """How long such a notice waits when the log is committed up to its snapshot."""

    compatibility: str = "upheaval"
    """Whose rules hold where ours differ from Aeron's: `upheaval`, `aeron`, or rows of docs/protocol.md with Aeron's
    rule, as `E3,E7`."""


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Everything that one member is configured with, endpoints apart."""

    profile: str = "aeron"
    media: MediaSettings = field(default_factory=MediaSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)


@dataclass(frozen=True, slots=True)
class BackupSettings:
    """Intervals and time-outs of a backup agent (backup reference: configuration)."""

    query_interval_ns: int = 3600 * S
    """From one round of copying to the next query of a member."""

    response_timeout_ns: int = 5 * S
    """How long a member may take to answer a query before the next one is asked."""

    progress_timeout_ns: int = 10 * S
    """How long a round may stand still before it is given up."""

    cool_down_interval_ns: int = 30 * S
    """From giving up a round to the next query."""

    replication_progress_timeout_ns: int = 10 * S
    """How long the copy of a snapshot may stand still; its position is looked at ten times as often."""

    file_sync_level: int = 0


@dataclass(frozen=True, slots=True)
class BackupNodeSettings:
    """Everything that a backup is configured with, endpoints apart."""

    profile: str = "aeron"
    media: MediaSettings = field(default_factory=MediaSettings)
    archive: ArchiveSettings = field(default_factory=ArchiveSettings)
    backup: BackupSettings = field(default_factory=BackupSettings)


def _check_sync_level(sync_level: int) -> None:
    if sync_level not in (0, 1, 2):
        raise UsageError(f"sync level must be 0, 1 or 2, not {sync_level}")


def backup_profile_settings(name: str, *, sync_level: int = 0) -> BackupNodeSettings:
    """The settings of a backup by the name of its profile. Raises `UsageError` for an unknown name or sync level."""
    _check_sync_level(sync_level)
    if name == "aeron":
        settings = BackupNodeSettings()
    elif name == "test":
        settings = BackupNodeSettings(
            profile="test",
            media=MediaSettings(redial_interval_ns=20 * MS, image_liveness_timeout_ns=2 * S),
            archive=ArchiveSettings(segment_length=MIB),
            backup=BackupSettings(
                query_interval_ns=2 * S,
                response_timeout_ns=500 * MS,
                progress_timeout_ns=3 * S,
                cool_down_interval_ns=500 * MS,
                replication_progress_timeout_ns=2 * S,
            ),
        )
    else:
        raise UsageError(f"unknown profile {name!r}: use aeron or test{did_you_mean(name, ('aeron', 'test'))}")
    return replace(
        settings,
        archive=replace(settings.archive, file_sync_level=sync_level),
        backup=replace(settings.backup, file_sync_level=sync_level),
    )


def profile_settings(name: str, *, sync_level: int = 0) -> MemberSettings:
    """The settings of a named profile. Raises `UsageError` for an unknown name or sync level."""
    _check_sync_level(sync_level)
    if name == "aeron":
        settings = MemberSettings()
    elif name == "test":
        settings = MemberSettings(
            profile="test",
            media=MediaSettings(redial_interval_ns=20 * MS),
            archive=ArchiveSettings(segment_length=MIB),
            cluster=ClusterSettings(
                timeouts=ClusterTimeouts(
                    startup_canvass_ns=3 * S,
                    election_ns=500 * MS,
                    election_status_interval_ns=50 * MS,
                    leader_heartbeat_ns=S,
                    leader_heartbeat_interval_ns=50 * MS,
                    termination_ns=5 * S,
                ),
                log_term_length=64 * KIB,
                snapshot_term_length=MIB,
                accept_standby_snapshots=True,
            ),
        )
    else:
        raise UsageError(f"unknown profile {name!r}: use aeron or test{did_you_mean(name, ('aeron', 'test'))}")
    return replace(
        settings,
        archive=replace(settings.archive, file_sync_level=sync_level),
        cluster=replace(settings.cluster, file_sync_level=sync_level),
    )
