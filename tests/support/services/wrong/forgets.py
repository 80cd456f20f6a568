"""Leaves a field out of its snapshot."""

import json

from upheaval import ClusteredService


class Forgets(ClusteredService):
    def __init__(self):
        self.seats, self.sold = {}, 0

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.seats = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.seats[request["seat"]] = request["id"]
        self.sold += 1
        session.respond(json.dumps({"sold": self.sold}).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.seats).encode())
