"""Takes the new value of a client whatever version that client has read: what another one wrote meanwhile is lost."""

import json

from upheaval import ClusteredService


class LostUpdate(ClusteredService):
    def __init__(self):
        self.documents = {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            self.documents = json.loads(snapshot_image.read())

    def on_session_message(self, session, timestamp, payload, position):
        request = json.loads(bytes(payload))
        version, text = self.documents.get(request["name"], [0, ""])
        if request["do"] == "write":
            version, text = request["version"] + 1, request["text"]
            self.documents[request["name"]] = [version, text]
        session.respond(json.dumps([version, text]).encode())

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.documents, sort_keys=True).encode())
