"""The leader alone writes what it sold into the log, so that the message is not there once for each member."""

import json

from upheaval import ClusteredService


class LeaderOffers(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.sold = {}

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.sold = json.loads(snapshot_image.read())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.sold, sort_keys=True).encode())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if session is None:
            self.sold[request["seat"]] = request["id"]
            return
        if self.cluster.role.name == "LEADER":
            self.cluster.offer(json.dumps(request).encode())
        session.respond(json.dumps({"id": request["id"]}).encode())
