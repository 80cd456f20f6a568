"""News: who comes is greeted, headlines go to all sessions, and some of them at a time that was asked for.

A request is answered, too. A headline that was sent in before is not published again.
"""

import json

from asking import work_of_two

from upheaval import ClusteredService

KEPT = 30
UNITS_PER_MS = {"MILLIS": 1, "MICROS": 1_000, "NANOS": 1_000_000}


class Newsroom(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.count = 0
        self.latest = []  # ids of requests
        self.embargoed = {}  # number of its timer: headline
        self.muted = set()  # sessions

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.count, self.latest, embargoed, muted = json.loads(snapshot_image.read())
            self.embargoed = {int(number): headline for number, headline in embargoed.items()}
            self.muted = set(muted)

    def on_take_snapshot(self, publication):
        state = [self.count, self.latest, self.embargoed, sorted(self.muted)]
        publication.offer(json.dumps(state).encode())

    def on_session_open(self, session, timestamp):
        session.respond(json.dumps({"welcome": session.id, "published": self.count}).encode())

    def on_session_close(self, session, timestamp, reason):
        self.muted.discard(session.id)

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        if request["id"] not in self.latest:
            self.latest = [*self.latest[1 - KEPT :], request["id"]]
            self.apply(session, request, timestamp, position)
        session.respond(json.dumps({"id": request["id"], "published": self.count}).encode())

    def apply(self, session, request, timestamp, position):
        match request["do"]:
            case "publish":
                self.publish(request["headline"])
            case "embargo":
                self.embargoed[position] = request["headline"]
                units = UNITS_PER_MS[self.cluster.time_unit.name]
                self.cluster.schedule_timer(position, timestamp + request["ms"] * units)
            case "mute":
                self.muted ^= {session.id}

    def on_timer_event(self, correlation_id, timestamp):
        self.publish(self.embargoed.pop(correlation_id))

    def publish(self, headline):
        self.count += 1
        news = json.dumps({"number": self.count, "headline": headline}).encode()
        for session_id, session in sorted(self.cluster.client_sessions.items()):
            if session_id not in self.muted:
                session.respond(news)


def draw(random):
    do = random.choice(["publish", "publish", "embargo", "mute"])
    return {"do": do, "headline": f"headline {random.getrandbits(20)}", "ms": random.choice([1, 30, 400, 3000])}


work = work_of_two(draw)
