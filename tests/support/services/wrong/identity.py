"""Names an object by its address."""

import json

from upheaval import ClusteredService


class Guest:
    pass


class Identity(ClusteredService):
    def __init__(self):
        self.guests, self.seats = [], {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.seats = json.loads(snapshot_image.read())["seats"]

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.guests.append(Guest())
        self.seats[request["seat"]] = id(self.guests[-1])
        session.respond(json.dumps(len(self.seats)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"seats": self.seats}, sort_keys=True).encode())
