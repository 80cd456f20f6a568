"""Writes a set into its snapshot in whichever order it has."""

import json

from upheaval import ClusteredService


class SnapshotOrder(ClusteredService):
    def __init__(self):
        self.waiting = set()

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.waiting = set(json.loads(snapshot_image.read())["waiting"])

    def on_session_message(self, session, timestamp, payload, position):
        self.waiting.add(f"guest of {json.loads(bytes(payload))['seat']}")
        session.respond(json.dumps(len(self.waiting)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"waiting": list(self.waiting)}).encode())
