"""An auction that answers each bid and sends the highest one to every session before the answer.

A request is an id and an amount, 8 bytes each; the answer repeats the id, and news has zero in its place.
"""

import struct

from upheaval import ClusteredService, CorrelationAt

BID = struct.Struct("<qq")


class Bids(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.highest = 0
        self.count = 0

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.highest, self.count = BID.unpack(snapshot_image.read())

    def on_take_snapshot(self, publication):
        publication.offer(BID.pack(self.highest, self.count))

    def on_session_message(self, session, timestamp, payload, position):
        number, amount = BID.unpack(payload)
        self.highest = max(self.highest, amount)
        self.count += 1
        for _, other in sorted(self.cluster.client_sessions.items()):
            other.respond(BID.pack(0, self.highest))
        session.respond(BID.pack(number, self.highest))


def work(cluster, random, count):
    clients = [cluster.client(accepts=CorrelationAt(0)) for _ in range(2)]
    for _ in range(count):
        bid = BID.pack(1 + random.getrandbits(60), random.getrandbits(40))
        random.choice(clients).request(bid, retries=20)
