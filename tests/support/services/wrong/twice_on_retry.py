"""Does a request once more when it comes again, which it does from a client that got no answer."""

import json

from upheaval import ClusteredService


class TwiceOnRetry(ClusteredService):
    def __init__(self):
        self.balances = {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.balances = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        balance = self.balances.get(request["account"], 0) + request["amount"]
        self.balances[request["account"]] = balance
        session.respond(json.dumps(balance).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.balances, sort_keys=True).encode())
