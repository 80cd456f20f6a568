"""Keeps every answer that it ever gave."""

import json

from upheaval import ClusteredService


class Unbounded(ClusteredService):
    def __init__(self):
        self.sold, self.answers = 0, {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.sold, self.answers = json.loads(snapshot_image.read()).values()

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if str(request["id"]) not in self.answers:
            self.sold += 1
            self.answers[str(request["id"])] = {"sold": self.sold, "to": request["seat"]}
        session.respond(json.dumps(self.answers[str(request["id"])]).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"sold": self.sold, "answers": self.answers}).encode())
