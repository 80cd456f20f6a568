"""The backup agent."""

from random import Random

from upheaval_node.backup.backup_counters import BackupCounters
from upheaval_node.backup.config import BackupConfig
from upheaval_node.counters import Counters
from upheaval_node.credentials import CredentialsSupplier
from upheaval_node.media.api import Media
from upheaval_node.ports import Bell, ErrorSink, Storage, Tracer
from upheaval_node.types import MAX_POSITION, Now


class BackupAgent:
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
    ) -> None:
        self._parts = media, storage, tracer, random, errors, credentials
        self.bell: Bell | None = None
        self._published = BackupCounters(counters, config.cluster_id)

    def do_work(self, now: Now) -> int:  # noqa: ARG002
        return 0

    def next_deadline_ns(self) -> int:
        return MAX_POSITION

    def close(self) -> None:
        self._published.close()
