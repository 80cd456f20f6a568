"""Writes no snapshot."""

import json

from upheaval import ClusteredService


class Silent(ClusteredService):
    def __init__(self):
        self.seats = {}

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        before = self.seats.get(request["seat"])
        self.seats[request["seat"]] = request["id"]
        session.respond(json.dumps({"before": before}).encode())
