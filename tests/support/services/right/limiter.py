"""A rate limiter: each key has a bucket of tokens that a timer refills. Deadlines are in the cluster's unit."""

import json

from asking import work_of_two

from upheaval import ClusteredService

FULL = 4
EVERY_MS = 60
UNITS_PER_MS = {"MILLIS": 1, "MICROS": 1_000, "NANOS": 1_000_000}


class Limiter(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.buckets = {}  # key: [number of its timer, tokens, id and answer of the last request]

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.buckets = json.loads(snapshot_image.read())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.buckets).encode())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        bucket = self.buckets.setdefault(request["key"], [len(self.buckets) + 1, FULL, "", False])
        if bucket[2] != request["id"]:
            bucket[2:] = request["id"], self.apply(bucket, request["do"], timestamp)
        session.respond(json.dumps({"id": request["id"], "allowed": bucket[3], "left": bucket[1]}).encode())

    def apply(self, bucket, do, timestamp):
        if do == "refill":
            bucket[1] = FULL
            self.cluster.cancel_timer(bucket[0])
            return True
        if bucket[1] == 0:
            return False
        if bucket[1] == FULL:
            self.arm(bucket, timestamp)
        bucket[1] -= 1
        return True

    def arm(self, bucket, timestamp):
        self.cluster.schedule_timer(bucket[0], timestamp + EVERY_MS * UNITS_PER_MS[self.cluster.time_unit.name])

    def on_timer_event(self, correlation_id, timestamp):
        for bucket in self.buckets.values():
            # One that was filled up meanwhile may still expire.
            if bucket[0] == correlation_id and bucket[1] < FULL:
                bucket[1] += 1
                if bucket[1] < FULL:
                    self.arm(bucket, timestamp)


def draw(random):
    return {"do": random.choice(["take"] * 9 + ["refill"]), "key": random.choice("abcde")}


work = work_of_two(draw)
