"""A service whose state is as large as `UPHEAVAL_BALLAST_BYTES` says, for measuring snapshots and ends."""

import os
from typing import Final

from upheaval_node.service.api import ClientSession, Cluster, ClusteredService, SnapshotImage, SnapshotPublication

VARIABLE: Final = "UPHEAVAL_BALLAST_BYTES"
CHUNK: Final = 64 * 1024


class Ballast(ClusteredService):
    def __init__(self) -> None:
        self.chunks: list[bytes] = []

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:  # noqa: ARG002
        if snapshot_image is None:
            size = int(os.environ[VARIABLE])
            self.chunks = [bytes([number % 256]) * CHUNK for number in range(size // CHUNK)]
            return
        while (chunk := snapshot_image.read()) is not None:
            self.chunks.append(bytes(chunk))

    def on_session_message(
        self,
        session: ClientSession | None,
        timestamp: int,  # noqa: ARG002
        payload: memoryview,
        position: int,  # noqa: ARG002
    ) -> None:
        if session is not None:
            session.respond(payload)

    def on_take_snapshot(self, publication: SnapshotPublication) -> None:
        for chunk in self.chunks:
            publication.offer(chunk)
