"""The bank as a clustered service: every member applies the same requests in the same order."""

import json

from upheaval import ClusteredService


class Bank(ClusteredService):
    """Accounts with a balance. A request has an id; the same id again gets the same answer and changes nothing."""

    def __init__(self):
        self.balances = {}
        self.answers = {}

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        # As a text, whatever it is: in the snapshot it is a name in a JSON object.
        request_id = str(request["id"])
        answer = self.answers.get(request_id)
        if answer is None:
            answer = self.answers[request_id] = self.apply(request)
        if session is not None:
            session.respond(json.dumps(answer).encode())

    def apply(self, request):
        match request["do"]:
            case "deposit":
                self.balances[request["to"]] = self.balances.get(request["to"], 0) + request["amount"]
                return {"ok": True}
            case "transfer":
                if self.balances.get(request["from"], 0) < request["amount"]:
                    return {"ok": False, "why": "not enough money"}
                self.balances[request["from"]] -= request["amount"]
                self.balances[request["to"]] = self.balances.get(request["to"], 0) + request["amount"]
                return {"ok": True}
            case "balances":
                return {"ok": True, "balances": dict(self.balances)}
        return {"ok": False, "why": "unknown request"}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None and (state := snapshot_image.read()) is not None:
            self.balances, self.answers = json.loads(state)

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.balances, self.answers]).encode())
