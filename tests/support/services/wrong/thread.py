"""Has a thread that changes the state."""

import json
import threading

from upheaval import ClusteredService


class Thread(ClusteredService):
    def __init__(self):
        self.ages, self.is_over = {}, threading.Event()

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.ages = json.loads(snapshot_image.read())["ages"]
        threading.Thread(target=self.grow_older, daemon=True).start()

    def grow_older(self):
        while not self.is_over.wait(0.001):
            for seat in list(self.ages):
                self.ages[seat] += 1

    def on_session_message(self, session, timestamp, payload, position):
        self.ages[json.loads(bytes(payload))["seat"]] = 0
        session.respond(json.dumps(len(self.ages)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"ages": self.ages}, sort_keys=True).encode())

    def on_terminate(self, cluster):
        self.is_over.set()
