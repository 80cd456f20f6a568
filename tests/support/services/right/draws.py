"""A lottery with an average: random numbers come from a seed in the state, time from the log, sums keep their order."""

import json
import math
import random

from asking import Asking

from upheaval import ClusteredService

EVERY_MS = 25


class Draws(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.seed = 1
        self.tickets = {}
        self.winners = []
        self.bets = []
        self.next_draw = 0

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            state = json.loads(snapshot_image.read())
            self.seed, self.tickets, self.winners, self.bets, self.next_draw = state

    def on_take_snapshot(self, publication):
        state = [self.seed, self.tickets, self.winners, self.bets, self.next_draw]
        publication.offer(json.dumps(state, sort_keys=True).encode())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if not self.next_draw:
            self.arm(timestamp)
        if request["do"] == "buy" and request["id"] not in self.tickets:
            self.tickets[request["id"]] = self.cluster.time
            self.bets = [*self.bets[-9:], request["bet"]]
        average = math.fsum(self.bets) / max(len(self.bets), 1)
        answer = {"winners": self.winners[-3:], "average": average, "tickets": len(self.tickets)}
        session.respond(json.dumps(answer).encode())

    def on_timer_event(self, correlation_id, timestamp):
        chance = random.Random(self.seed)
        if self.tickets:
            self.winners = [*self.winners[-9:], chance.choice(sorted(self.tickets))]
            self.tickets = {}
        self.seed = chance.getrandbits(32)
        self.arm(timestamp)

    def arm(self, timestamp):
        self.next_draw = timestamp + EVERY_MS
        self.cluster.schedule_timer(1, self.next_draw)


def work(cluster, random, count):
    user = Asking(cluster, "ann")
    for _ in range(count):
        user.ask(random.choice(["buy", "look"]), bet=random.random())
