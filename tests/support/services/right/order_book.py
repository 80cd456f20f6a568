"""An order book: an order meets the best of the other side, and whose order that was gets a push.

Orders belong to sessions and go with them. An order that comes again is answered as before and changes nothing.
"""

import json
from collections import OrderedDict

from asking import work_of_two

from upheaval import ClusteredService

KEPT = 100


class OrderBook(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.sides = {"buy": [], "sell": []}  # [price, position, session, count], the best first
        self.answers = OrderedDict()
        self.volume = 0

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is None:
            return
        while (message := snapshot_image.read()) is not None:
            kind, value = json.loads(message)
            if kind == "volume":
                self.volume = value
            elif kind == "answer":
                self.answers[value[0]] = value[1]
            else:
                self.sides[kind].append(value)

    def on_take_snapshot(self, publication):
        messages = [["volume", self.volume]]
        messages += [[side, order] for side, orders in sorted(self.sides.items()) for order in orders]
        messages += [["answer", item] for item in self.answers.items()]
        for message in messages:
            publication.offer(json.dumps(message).encode())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if request["id"] not in self.answers:
            self.answers[request["id"]] = {"id": request["id"], **self.apply(session, request, position)}
            while len(self.answers) > KEPT:
                self.answers.popitem(last=False)
        session.respond(json.dumps(self.answers[request["id"]]).encode())

    def on_session_close(self, session, timestamp, reason):
        for side, orders in self.sides.items():
            self.sides[side] = [order for order in orders if order[2] != session.id]

    def apply(self, session, request, position):
        match request["do"]:
            case "buy" | "sell":
                return {"filled": self.trade(session, request, position)}
            case "cancel":
                self.on_session_close(session, 0, None)
        return {"best": [orders[0][0] if orders else None for orders in self.sides.values()], "volume": self.volume}

    def trade(self, session, request, position):
        side, price, wanted = request["do"], request["price"], request["count"]
        others = self.sides["sell" if side == "buy" else "buy"]
        sign = 1 if side == "buy" else -1
        filled = 0
        while others and filled < wanted and sign * (price - others[0][0]) >= 0:
            best = others[0]
            count = min(best[3], wanted - filled)
            filled += count
            best[3] -= count
            self.push(best[2], {"sold" if side == "buy" else "bought": count, "price": best[0]})
            if best[3] == 0:
                others.pop(0)
        self.volume += filled
        if filled < wanted:
            own = self.sides[side]
            own.append([price, position, session.id, wanted - filled])
            own.sort(key=lambda order: (-sign * order[0], order[1]))
        return filled

    def push(self, session_id, message):
        session = self.cluster.client_session(session_id)
        if session is not None:
            session.respond(json.dumps(message).encode())


def draw(random):
    do = random.choice(["buy", "buy", "buy", "sell", "sell", "sell", "best", "cancel"])
    return {"do": do, "price": random.randint(95, 105), "count": random.randint(1, 9)}


work = work_of_two(draw)
