"""Takes whichever element of a set of texts comes first."""

import json

from upheaval import ClusteredService


class SetPick(ClusteredService):
    def __init__(self):
        self.waiting, self.next_guest = set(), ""

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            waiting, self.next_guest = json.loads(snapshot_image.read()).values()
            self.waiting = set(waiting)

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        self.waiting.add(f"guest of {request['seat']}")
        self.next_guest = next(iter(self.waiting))
        session.respond(json.dumps(len(self.waiting)).encode())

    def on_take_snapshot(self, publication):
        state = {"waiting": sorted(self.waiting), "next_guest": self.next_guest}
        publication.offer(json.dumps(state).encode())
