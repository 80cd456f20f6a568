"""A shelf with named boxes, right, and wrong in two ways."""

import json

from upheaval import ClusteredService


class Shelf(ClusteredService):
    """`{"number": "1", "do": "put", "box": "a", "count": 3}` and `{"do": "take", ..}` get what is in the box then."""

    def __init__(self):
        self.boxes = {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.boxes = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        session.respond(json.dumps(self.apply(**request)).encode())

    def apply(self, number, do, box, count):
        before = self.boxes.get(box, 0)
        self.boxes[box] = before + count if do == "put" else max(before - count, 0)
        return self.boxes[box]

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.boxes, sort_keys=True).encode())


class Raising(Shelf):
    """Takes of a box that was emptied raise."""

    def apply(self, number, do, box, count):
        if do == "take" and self.boxes.get(box) == 0:
            raise RuntimeError("empty")
        return super().apply(id, do, box, count)


class Forgetful(Shelf):
    """A snapshot has no more than one box."""

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(dict(sorted(self.boxes.items())[:1])).encode())
