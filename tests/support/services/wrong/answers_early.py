"""Answers a request before it is applied: five of them are applied together."""

import json

from upheaval import ClusteredService


class AnswersEarly(ClusteredService):
    def __init__(self):
        self.seats, self.waiting = {}, []

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.seats, self.waiting = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if request["do"] == "take":
            self.waiting.append([request["seat"], request["id"]])
            session.respond(b"true")
            if len(self.waiting) == 5:
                self.seats.update(self.waiting)
                self.waiting = []
        else:
            session.respond(json.dumps(self.seats.get(request["seat"])).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.seats, self.waiting]).encode())
