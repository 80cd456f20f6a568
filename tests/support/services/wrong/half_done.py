"""Raises at every 50th request, after half of what it is to do."""

import json

from upheaval import ClusteredService


class HalfDone(ClusteredService):
    def __init__(self):
        self.seats, self.sold = {}, 0

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.seats, self.sold = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.seats[request["seat"]] = request["id"]
        discount = 100 / (request["id"] % 50)
        self.sold += 1
        session.respond(json.dumps([self.sold, discount]).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.seats, self.sold]).encode())
