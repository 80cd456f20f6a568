"""Adds up floating-point numbers in the order of a set."""

import json

from upheaval import ClusteredService


class FloatOrder(ClusteredService):
    def __init__(self):
        self.prices, self.totals = {}, []

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.prices, self.totals = json.loads(snapshot_image.read()).values()

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.prices[request["seat"]] = 0.1 * request["id"] ** 3
        self.totals.append(sum(self.prices[seat] for seat in set(self.prices)))
        session.respond(json.dumps(len(self.prices)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"prices": self.prices, "totals": self.totals}).encode())
