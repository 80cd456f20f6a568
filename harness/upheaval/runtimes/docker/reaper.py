"""Who removes the leftovers of a killed harness: Ryuk, at once, if its image is present; otherwise the next start, by
label.

Ryuk is the clean-up container of testcontainers. It serves clusters that belong to one process; those of `up` outlive
theirs. Labels are always set, so that the next start cleans up in either case.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from upheaval.runtimes.docker.engine import Client, engine_errors


@dataclass(frozen=True, slots=True)
class Cleaning:
    """How a cluster is cleaned up: a sentence for people, and the labels that Ryuk looks for (empty without Ryuk)."""

    text: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_by_ryuk(self) -> bool:
        """Whether Ryuk removes the cluster as soon as this process is gone."""
        return bool(self.labels)

    def begin(self) -> None:
        """Start Ryuk, once per process, before anything that it has to remove is created."""
        from testcontainers.core.config import testcontainers_config
        from testcontainers.core.container import Reaper

        testcontainers_config.ryuk_disabled = not self.is_by_ryuk
        if self.is_by_ryuk:
            with engine_errors("starting Ryuk"):
                Reaper.get_instance()


def choose_cleaning(client: Client, *, detached: bool) -> Cleaning:
    """Choose Ryuk if its image is present, it is not switched off, and the cluster is not detached."""
    import docker
    from testcontainers.core.config import testcontainers_config
    from testcontainers.core.labels import LABEL_SESSION_ID, SESSION_ID

    if detached:
        return Cleaning("kept until `upheaval down`")
    if os.environ.get("TESTCONTAINERS_RYUK_DISABLED", "").lower() in ("1", "true", "yes"):
        return Cleaning("cleaned by label: Ryuk is switched off")
    image = testcontainers_config.ryuk_image
    with engine_errors(f"looking for {image}"):
        try:
            client.images.get(image)
        except docker.errors.ImageNotFound:
            return Cleaning(f"cleaned by label: Ryuk's image {image} is not in the engine")
    return Cleaning("cleaned by Ryuk, and by label", {LABEL_SESSION_ID: str(SESSION_ID)})
