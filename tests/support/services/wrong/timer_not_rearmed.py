"""Arms its timer again only where its member leads: no other one knows of it when that member is gone."""

import json

from upheaval import ClusteredService

EVERY_MS = 20


class TimerNotRearmed(ClusteredService):
    def __init__(self):
        self.cluster, self.open, self.paid = None, [], 0

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.open, self.paid = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        if not self.open and not self.paid:
            self.cluster.schedule_timer(7, timestamp + EVERY_MS)
        self.open.append(json.loads(bytes(payload))["id"])
        session.respond(json.dumps(self.paid).encode())

    def on_timer_event(self, correlation_id, timestamp):
        self.paid, self.open = self.paid + len(self.open), []
        if self.cluster.role.name == "LEADER":
            self.cluster.schedule_timer(correlation_id, timestamp + EVERY_MS)

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.open, self.paid]).encode())
