"""The locks as a clustered service: every member applies the same requests in the same order."""

import json

from upheaval import ClusteredService


class LockService(ClusteredService):
    """Gives a lock to one holder at a time, with a token that is higher than all before it.

    Who uses what the lock protects shows the token, so that a holder that was taken for dead, and lost the lock, is
    refused. A request has an id; the same id again gets the same answer and changes nothing.
    """

    def __init__(self):
        self.holders = {}
        self.tokens = {}
        self.answers = {}

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        request_id = str(request["id"])
        answer = self.answers.get(request_id)
        if answer is None:
            answer = self.answers[request_id] = self.apply(request)
        if session is not None:
            session.respond(json.dumps(answer).encode())

    def apply(self, request):
        lock = request["lock"]
        match request["do"]:
            case "acquire":
                if lock in self.holders:
                    return {"ok": False, "holder": self.holders[lock]}
                self.tokens[lock] = self.tokens.get(lock, 0) + 1
                self.holders[lock] = request["who"]
                return {"ok": True, "token": self.tokens[lock]}
            case "release":
                if lock not in self.holders or request["token"] != self.tokens[lock]:
                    return {"ok": False}
                del self.holders[lock]
                return {"ok": True}
            case "break":
                return {"ok": self.holders.pop(lock, None) is not None}
            case "check":
                return {"ok": lock in self.holders and request["token"] == self.tokens[lock]}
        return {"ok": False, "why": "unknown request"}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None and (state := snapshot_image.read()) is not None:
            self.holders, self.tokens, self.answers = json.loads(state)

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.holders, self.tokens, self.answers]).encode())
