"""Transfers in two steps: what one account gives goes to the other by a message of the service itself.

Who asked is answered when that message has come; it leaves a fee, which a second message collects.
"""

import json

from asking import work_of_two

from upheaval import ClusteredService

KEPT = 60
BEGIN = 100


class Transfers(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.balances = {}
        self.fees = 0
        self.under_way = {}  # id of a request: [session, amount]
        self.done = {}  # id of a request: its answer

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.balances, self.fees, self.under_way, self.done = json.loads(snapshot_image.read())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.balances, self.fees, self.under_way, self.done]).encode())

    def on_session_message(self, session, timestamp, payload, position):
        message = json.loads(bytes(payload))
        if session is None:
            self.go_on(message)
        elif message["id"] in self.done:
            self.answer(session.id, self.done[message["id"]])
        elif message["id"] in self.under_way:
            # It comes again from another session: that one is answered.
            self.under_way[message["id"]][0] = session.id
        else:
            self.begin(session, message)

    def begin(self, session, request):
        amount, giver = request["amount"], request["from"]
        if self.balances.setdefault(giver, BEGIN) < amount:
            self.end(request["id"], session.id, {"id": request["id"], "refused": self.balances[giver]})
            return
        self.balances[giver] -= amount
        self.under_way[request["id"]] = [session.id, amount]
        self.cluster.offer(json.dumps({"step": "give", "id": request["id"], "to": request["to"]}).encode())

    def go_on(self, message):
        if message["step"] == "collect":
            self.fees += 1
            return
        session_id, amount = self.under_way.pop(message["id"])
        taker = message["to"]
        self.balances[taker] = self.balances.get(taker, BEGIN) + amount - 1
        self.cluster.offer(json.dumps({"step": "collect"}).encode())
        self.end(message["id"], session_id, {"id": message["id"], "balance": self.balances[taker], "fees": self.fees})

    def end(self, request_id, session_id, answer):
        self.done[request_id] = answer
        while len(self.done) > KEPT:
            del self.done[next(iter(self.done))]
        self.answer(session_id, answer)

    def answer(self, session_id, answer):
        session = self.cluster.client_session(session_id)
        if session is not None:
            session.respond(json.dumps(answer).encode())


def draw(random):
    giver, taker = random.sample(["ann", "bob", "carl", "dora"], 2)
    return {"from": giver, "to": taker, "amount": random.randint(1, 40)}


work = work_of_two(draw)
