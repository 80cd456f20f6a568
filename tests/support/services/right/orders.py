"""A shop: baskets by session, stock, and orders that a message of the service itself sends out.

Answers to the last requests are kept, so that one that comes again changes nothing. Sets are written in order, what is
looked up often is kept until it changes, and a request that makes no sense is answered.
"""

import json
from collections import OrderedDict

from asking import Asking

from upheaval import ClusteredService

KEPT = 40


class Orders(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.stock = {}
        self.baskets = {}
        self.sent = 0
        self.customers = set()
        self.answers = OrderedDict()
        self.scarce = None

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is None:
            return
        stock, sent, customers, answers = json.loads(snapshot_image.read())
        self.stock, self.sent, self.customers, self.answers = stock, sent, set(customers), OrderedDict(answers)
        while (basket := snapshot_image.read()) is not None:
            session, goods = json.loads(basket)
            self.baskets[session] = goods

    def on_take_snapshot(self, publication):
        whole = [self.stock, self.sent, sorted(self.customers), list(self.answers.items())]
        publication.offer(json.dumps(whole).encode())
        for session, goods in sorted(self.baskets.items()):
            publication.offer(json.dumps([session, goods]).encode())

    def on_session_open(self, session, timestamp):
        self.baskets[session.id] = []

    def on_session_close(self, session, timestamp, reason):
        self.baskets.pop(session.id, None)

    def on_session_message(self, session, timestamp, payload, position):
        if session is None:
            self.sent += len(json.loads(bytes(payload)))
            return
        request = json.loads(bytes(payload))
        if request["id"] not in self.answers:
            try:
                self.answers[request["id"]] = self.apply(session.id, request)
            except (KeyError, ValueError) as error:
                self.answers[request["id"]] = {"refused": repr(error)}
        answer = self.answers[request["id"]]
        while len(self.answers) > KEPT:
            self.answers.popitem(last=False)
        session.respond(json.dumps(answer).encode())

    def apply(self, session_id, request):
        match request["do"]:
            case "deliver":
                self.stock[request["goods"]] = self.stock.get(request["goods"], 0) + request["count"]
                self.scarce = None
            case "choose":
                if self.stock[request["goods"]] < 1:
                    raise ValueError("sold out")
                self.stock[request["goods"]] -= 1
                self.baskets[session_id].append(request["goods"])
                self.scarce = None
            case "order":
                self.customers.add(request["customer"])
                self.cluster.offer(json.dumps(self.baskets[session_id]).encode())
                self.baskets[session_id] = []
            case "scarce":
                if self.scarce is None:
                    self.scarce = sorted(goods for goods, count in self.stock.items() if count < 2)
                return {"scarce": self.scarce}
        return {"basket": list(self.baskets[session_id]), "customers": len(self.customers), "sent": self.sent}


def work(cluster, random, count):
    users = [Asking(cluster, "ann"), Asking(cluster, "bob")]
    for _ in range(count):
        do = random.choice(["deliver", "choose", "choose", "order", "scarce", "nonsense"])
        goods = random.choice(["nail", "nut", "bolt"])
        fields = {"goods": goods, "count": 2} if do == "deliver" else {"goods": goods, "customer": f"customer of {do}"}
        user = random.choice(users)
        user.ask(do, **fields)
