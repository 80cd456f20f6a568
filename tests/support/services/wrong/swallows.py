"""Catches whatever goes wrong, in the middle of a change, and says that all is well."""

import json

from upheaval import ClusteredService


class Swallows(ClusteredService):
    def __init__(self):
        self.balances = {"ann": 1000, "bob": 1000}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.balances = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        try:
            self.balances[request["from"]] -= request["amount"]
            self.balances[request["to"]] += request["amount"]
        except Exception:  # noqa: BLE001 - the mistake
            pass
        session.respond(json.dumps({"ann": self.balances["ann"]}).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.balances, sort_keys=True).encode())
