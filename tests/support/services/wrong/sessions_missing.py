"""Leaves what belongs to its sessions out of the snapshot."""

import json

from upheaval import ClusteredService


class SessionsMissing(ClusteredService):
    def __init__(self):
        self.seats, self.baskets = {}, {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.seats = json.loads(snapshot_image.read())

    def on_session_open(self, session, timestamp):
        self.baskets[session.id] = []

    def on_session_close(self, session, timestamp, reason):
        self.baskets.pop(session.id, None)

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.seats[request["seat"]] = request["id"]
        basket = self.baskets.setdefault(session.id, [])
        basket.append(request["seat"])
        session.respond(json.dumps({"basket": basket[-2:]}).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.seats).encode())
