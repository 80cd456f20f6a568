"""Locks with fencing tokens. Who takes one holds it until it gives it back, its session ends, or its time is over."""

import json

from asking import Asking

from upheaval import ClusteredService

TERM_MS = 40


class Leases(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.token = 0
        self.held = {}  # lock: [session, token, id of the request that took it]

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.token, self.held = json.loads(snapshot_image.read())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps([self.token, self.held], sort_keys=True).encode())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        holder = self.held.get(request["lock"])
        is_mine = holder is not None and holder[0] == session.id
        if request["do"] == "take" and (holder is None or is_mine):
            if holder is not None and holder[2] != request["id"]:
                self.cluster.cancel_timer(holder[1])
            if holder is None or holder[2] != request["id"]:
                self.token += 1
                self.held[request["lock"]] = [session.id, self.token, request["id"]]
                self.cluster.schedule_timer(self.token, timestamp + TERM_MS)
        elif request["do"] == "give" and is_mine:
            self.free(request["lock"])
        token = self.held.get(request["lock"], [None, 0])[1]
        session.respond(json.dumps({"token": token, "mine": is_mine}).encode())

    def on_timer_event(self, correlation_id, timestamp):
        # One that was given back meanwhile is not there any more.
        for lock in [lock for lock, held in self.held.items() if held[1] == correlation_id]:
            del self.held[lock]

    def on_session_close(self, session, timestamp, reason):
        for lock in [lock for lock, held in self.held.items() if held[0] == session.id]:
            self.free(lock)

    def free(self, lock):
        self.cluster.cancel_timer(self.held.pop(lock)[1])


def work(cluster, random, count):
    users = [Asking(cluster, "ann"), Asking(cluster, "bob")]
    for _ in range(count):
        random.choice(users).ask(random.choice(["take", "take", "give"]), lock=random.choice("abc"))
