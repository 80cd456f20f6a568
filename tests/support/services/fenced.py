"""A lock service with fencing tokens, right and with bugs that only its answers show."""

import json
from typing import Any

from upheaval_node.service.api import ClientSession, Cluster, ClusteredService, SnapshotImage, SnapshotPublication


class Fenced(ClusteredService):
    """Gives each lock to one holder at a time, with a token that grows. A request that comes again changes nothing."""

    def __init__(self) -> None:
        self.holders: dict[str, str] = {}
        self.answers: dict[str, Any] = {}
        self.token = 0
        self.shown: dict[str, str | None] = {}

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        if snapshot_image is not None and (state := snapshot_image.read()) is not None:
            self.holders, self.answers, self.token, self.shown = json.loads(state)

    def on_take_snapshot(self, snapshot_publication: SnapshotPublication) -> None:
        state = [self.holders, self.answers, self.token, self.shown]
        snapshot_publication.offer(json.dumps(state, sort_keys=True).encode())

    def on_session_message(
        self,
        session: ClientSession | None,
        timestamp: int,
        payload: memoryview,
        position: int,
    ) -> None:
        request = json.loads(bytes(payload))
        answer = self.known(request["id"])
        if answer is None:
            answer = self.answers[request["id"]] = self.apply(request)
        if session is not None:
            session.respond(json.dumps(answer).encode())

    def known(self, request_id: str) -> Any:
        return self.answers.get(request_id)

    def apply(self, request: dict[str, str]) -> dict[str, Any]:
        lock, who = request["lock"], request.get("who", "")
        match request["do"]:
            case "acquire":
                if lock in self.holders:
                    return {"ok": False}
                self.token += 1
                self.hold(lock, who)
                return {"ok": True, "token": self.token}
            case "release":
                return {"ok": self.holders.pop(lock, None) is not None}
        return {"holder": self.holder(lock)}

    def hold(self, lock: str, who: str) -> None:
        self.holders[lock] = who

    def holder(self, lock: str) -> str | None:
        return self.holders.get(lock)


class LostUpdate(Fenced):
    """Every twentieth lock is given, and not written down."""

    def hold(self, lock: str, who: str) -> None:
        if self.token % 20:
            super().hold(lock, who)


class StaleRead(Fenced):
    """Answers with the holder of its first answer."""

    def holder(self, lock: str) -> str | None:
        return self.shown.setdefault(lock, super().holder(lock))


class Twice(Fenced):
    """Does again what is asked again."""

    def known(self, request_id: str) -> Any:
        return None


class Repeating(Fenced):
    """Forgets now and then that a token was given."""

    def apply(self, request: dict[str, str]) -> dict[str, Any]:
        answer = super().apply(request)
        if self.token == 30:
            self.token = 29
        return answer
