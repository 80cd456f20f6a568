"""The services of a run, and which of them are shipped ones, whose requests to the cluster are known.

Only its own code knows what a user's service schedules and offers. This module knows no promise.
"""

from collections.abc import Sequence
from typing import Final

from upheaval.records import Manifest
from upheaval_node.service.loader import SHORT_NAMES

LEDGER: Final = "ledger"
TALLY: Final = "tally"
OFFERING: Final = (LEDGER, TALLY)
"""The shipped services that put messages into the log."""

_SHORT: Final = {name: short for short, name in SHORT_NAMES.items()}


def services_of(manifest: Manifest) -> tuple[str, ...]:
    """The services of a run by id, shipped ones by their short names; empty if the run names none."""
    if not manifest.service:
        return ()
    return tuple(_SHORT.get(name, name) for name in (manifest.service, *manifest.more_services))


def is_shipped(service: str) -> bool:
    """Whether the name is that of a shipped service."""
    return service in SHORT_NAMES


def are_shipped(services: Sequence[str]) -> bool:
    """Whether all services of a run are known and shipped."""
    return bool(services) and all(map(is_shipped, services))
