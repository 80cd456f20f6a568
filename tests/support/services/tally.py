"""A service whose answers are what it has heard of its log, and a model that hears the same."""

import json
from typing import Any

from upheaval import ClusteredService, Model, Request

HEARD = ("opened", "closed", "terms", "own", "fired")


class Tally(ClusteredService):
    """Counts what the log has, sends itself a message for each request, and sets a timer for each tenth one."""

    def on_start(self, cluster: Any, snapshot_image: Any) -> None:
        self.cluster = cluster
        content = None if snapshot_image is None else snapshot_image.read()
        self.counts = dict.fromkeys((*HEARD, "asked"), 0) if content is None else json.loads(content)

    def on_session_open(self, session: Any, timestamp: int) -> None:
        self.counts["opened"] += 1

    def on_session_close(self, session: Any, timestamp: int, close_reason: Any) -> None:
        self.counts["closed"] += 1

    def on_new_leadership_term_event(self, **_: Any) -> None:
        self.counts["terms"] += 1

    def on_timer_event(self, correlation_id: int, timestamp: int) -> None:
        self.counts["fired"] += 1

    def on_session_message(self, session: Any, timestamp: int, payload: Any, position: int) -> None:
        if session is None:
            self.counts["own"] += 1
            return
        self.counts["asked"] += 1
        self.cluster.offer(b"own")
        if self.counts["asked"] % 10 == 0:
            self.cluster.schedule_timer(self.counts["asked"], timestamp + 1)
        session.respond(json.dumps([timestamp, *(self.counts[name] for name in HEARD)]).encode())

    def on_take_snapshot(self, snapshot_publication: Any) -> None:
        snapshot_publication.offer(json.dumps(self.counts, sort_keys=True).encode())


class Heard(Model):
    """The same counts, from what a model hears."""

    def __init__(self) -> None:
        self.time = 0
        self.counts = dict.fromkeys(HEARD, 0)

    def apply(self, request: Request) -> Any:
        return [self.time, *self.counts.values()]

    def time_passed(self, timestamp: int) -> None:
        assert timestamp > self.time
        self.time = timestamp

    def session_opened(self, session_id: int, timestamp: int) -> None:
        assert timestamp == self.time
        self.counts["opened"] += 1

    def session_closed(self, session_id: int, timestamp: int) -> None:
        self.counts["closed"] += 1

    def term_began(self, term_id: int, timestamp: int) -> None:
        self.counts["terms"] += 1

    def service_message(self, payload: bytes, timestamp: int) -> None:
        assert payload == b"own"
        self.counts["own"] += 1

    def timer_fired(self, timer_id: int, timestamp: int) -> None:
        self.counts["fired"] += 1


class HeardByParity(Heard):
    """With two states: the second begins when the first has heard of much already."""

    @staticmethod
    def partition(request: Request) -> str:
        return request.text
