"""Reads a file where a request is handled."""

import json
from pathlib import Path

from upheaval import ClusteredService

RATES = Path(__file__).with_name("rates.json")


class ReadsFile(ClusteredService):
    def __init__(self):
        self.prices = {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.prices = json.loads(snapshot_image.read())["prices"]

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.prices[request["seat"]] = json.loads(RATES.read_text())["ticket"]
        session.respond(json.dumps(len(self.prices)).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({"prices": self.prices}, sort_keys=True).encode())
