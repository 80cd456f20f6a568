"""Answers from a cache that is never emptied."""

import json

from upheaval import ClusteredService


class StaleCache(ClusteredService):
    def __init__(self):
        self.seats, self.cache = {}, {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.seats = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if request["do"] == "take":
            self.seats[request["seat"]] = request["id"]
            answer = True
        else:
            answer = self.cache.setdefault(request["seat"], self.seats.get(request["seat"]))
        session.respond(json.dumps(answer).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.seats, sort_keys=True).encode())
