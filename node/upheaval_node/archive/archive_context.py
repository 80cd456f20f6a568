"""What all parts of an archive share: streams, files, counters, catalog, settings, and the error sink."""

from dataclasses import dataclass
from typing import Final

from upheaval_node.archive.catalog import Catalog
from upheaval_node.counters import Counters
from upheaval_node.media.api import Media
from upheaval_node.ports import ErrorSink, Storage
from upheaval_node.settings import ArchiveSettings

DAMAGE: Final = "damage"
"""The kind of error for a recording whose bytes have changed since they were written."""


@dataclass(frozen=True, slots=True)
class ArchiveContext:
    """The shared parts, made by `Archive`; `directory` holds the segment files and the catalog."""

    media: Media
    storage: Storage
    counters: Counters
    catalog: Catalog
    settings: ArchiveSettings
    errors: ErrorSink
    archive_id: int
    directory: str

    @property
    def sync_level(self) -> int:
        """How the files are synced (0: not at all)."""
        return self.settings.file_sync_level
