"""Asks a clock of its own when something happened."""

import json
import time

from upheaval import ClusteredService


class Clock(ClusteredService):
    def __init__(self):
        self.taken_at = {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.taken_at = json.loads(snapshot_image.read())["taken_at"]

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.taken_at[request["seat"]] = time.time()
        session.respond(json.dumps(len(self.taken_at)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"taken_at": self.taken_at}, sort_keys=True).encode())
