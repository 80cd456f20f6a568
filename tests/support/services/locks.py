"""A lock service of a user's own, right and with bugs put into it."""

import json
import logging
import random
import time
from typing import Any

from upheaval_node.service.api import (
    ClientSession,
    Cluster,
    ClusteredService,
    ClusterRole,
    SnapshotImage,
    SnapshotPublication,
)


class Locks(ClusteredService):
    """Who holds each lock, and how many requests there were. All of it is in the snapshot."""

    def __init__(self) -> None:
        self.holders: dict[str, Any] = {}
        self.requests = 0

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        if snapshot_image is not None:
            self.load(json.loads(snapshot_image.read() or b"{}"))

    def load(self, told: dict[str, Any]) -> None:
        self.holders, self.requests = told["holders"], told["requests"]

    def on_session_message(
        self,
        session: ClientSession | None,
        timestamp: int,
        payload: memoryview,
        position: int,
    ) -> None:
        request = json.loads(bytes(payload))
        self.requests += 1
        self.take(request["key"], request["id"])
        if session is not None:
            session.respond(json.dumps({"id": request["id"], "requests": self.requests}).encode())

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = request_id

    def state(self) -> dict[str, Any]:
        return {"holders": self.holders, "requests": self.requests}

    def on_take_snapshot(self, snapshot_publication: SnapshotPublication) -> None:
        snapshot_publication.offer(json.dumps(self.state(), sort_keys=True).encode())


class Raising(Locks):
    """Raises at every 50th request, after half of what it is to do."""

    def take(self, key: str, request_id: Any) -> None:
        super().take(key, request_id)
        if self.requests % 50 == 0:
            raise RuntimeError("half done")


class Telling(Locks):
    """Writes what it does with `logging`: of each lock by its number, and a warning of every 50th request."""

    def take(self, key: str, request_id: Any) -> None:
        super().take(key, request_id)
        logging.getLogger("locks").info("%s is of %s", key, request_id)
        if self.requests % 50 == 0:
            logging.getLogger("locks").warning("%d requests", self.requests)


class Timed(Locks):
    """Reads a clock."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = time.time()


class Forgetful(Locks):
    """Leaves a field out of its snapshot."""

    def load(self, told: dict[str, Any]) -> None:
        self.holders = told["holders"]

    def state(self) -> dict[str, Any]:
        return {"holders": self.holders}


class Silent(Locks):
    """Writes nothing."""

    def on_take_snapshot(self, snapshot_publication: SnapshotPublication) -> None:
        """Nothing."""


class Hashed(Locks):
    """Picks a member of a set of texts."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = next(iter({f"{key}-{number}" for number in (request_id, 1, 2, 3, 4, 5)}))


class Passing(Hashed):
    """Does so too, and forgets what it has picked before anybody takes a snapshot."""

    def take(self, key: str, request_id: Any) -> None:
        super().take(key, request_id)
        if self.requests >= 100:
            self.holders.clear()


class Seated(Locks):
    """Right: counts requests of open sessions, which are all that there are, and keeps the answer until it changes."""

    def __init__(self) -> None:
        super().__init__()
        self.seats: dict[str, int] = {}
        self.answer: bytes | None = None

    def on_session_open(self, session: ClientSession, timestamp: int) -> None:
        self.seats[str(session.id)] = 0

    def on_session_close(self, session: ClientSession, timestamp: int, reason: Any) -> None:
        self.seats.pop(str(session.id), None)

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        assert session is not None
        self.requests += 1
        if str(session.id) in self.seats:
            self.seats[str(session.id)] += 1
            self.answer = None
        if self.answer is None:
            self.answer = json.dumps(self.requests).encode()
        session.respond(self.answer)

    def load(self, told: dict[str, Any]) -> None:
        super().load(told)
        self.seats = told["seats"]

    def state(self) -> dict[str, Any]:
        return {**super().state(), "seats": self.seats}


class AnswersTime(Locks):
    """Its state is right; its answers hold a clock."""

    def answer(self) -> Any:
        return time.time()

    def on_session_message(
        self, session: ClientSession | None, timestamp: int, payload: memoryview, position: int
    ) -> None:
        request = json.loads(bytes(payload))
        self.requests += 1
        self.take(request["key"], request["id"])
        if session is not None:
            session.respond(json.dumps({"id": request["id"], "answer": self.answer()}).encode())


class AnswersRandom(AnswersTime):
    """Its answers hold a random number."""

    def answer(self) -> Any:
        return random.random()


class AnswersFromCache(AnswersTime):
    """The leader answers from a cache that copies do not have."""

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        super().on_start(cluster, snapshot_image)
        self.cluster, self.cached = cluster, 0

    def answer(self) -> Any:
        if self.cluster.role is ClusterRole.LEADER:
            self.cached += 1
        return self.cached
