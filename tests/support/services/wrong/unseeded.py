"""Draws a random number from a generator without a seed."""

import json
import random

from upheaval import ClusteredService


class Unseeded(ClusteredService):
    def __init__(self):
        self.winners = []

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.winners = json.loads(snapshot_image.read())["winners"]

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if request["id"] % 10 == 0:
            self.winners.append(random.randrange(10**9))
        session.respond(json.dumps(len(self.winners)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"winners": self.winners}).encode())
