"""Which of a run's services are shipped ones, of which it is known what they ask of the cluster.

What a service of a user's own schedules and offers only its code can say. This module knows no promise.
"""

from collections.abc import Sequence
from typing import Final

from upheaval.records import Manifest
from upheaval_node.service.loader import SHORT_NAMES

LEDGER: Final = "ledger"
TALLY: Final = "tally"
OFFERING: Final = (LEDGER, TALLY)
"""Those that put messages into the log."""

_SHORT: Final = {name: short for short, name in SHORT_NAMES.items()}


def services_of(manifest: Manifest) -> tuple[str, ...]:
    """By their ids, shipped ones by their short names; empty for a run that names none."""
    if not manifest.service:
        return ()
    return tuple(_SHORT.get(name, name) for name in (manifest.service, *manifest.more_services))


def is_shipped(service: str) -> bool:
    """Whether that is the name of a shipped service."""
    return service in SHORT_NAMES


def are_shipped(services: Sequence[str]) -> bool:
    """Whether all services of a run are known, and shipped."""
    return bool(services) and all(map(is_shipped, services))
