"""Locust users of these services, one class for each: they ask again when there is no answer, leave, and come back."""

import json

import limiter
import newsroom
import order_book
import telemetry
import transfers
from asking import answer_to
from locust import task

from upheaval import ClusterUser

ATTEMPTS = 3


class Asker(ClusterUser):
    abstract = True
    service = None
    """The module that draws the requests."""

    @task(30)
    def ask(self):
        request = {"id": f"n{self.new_id()}", **self.service.draw(self.random)}
        for _ in range(ATTEMPTS):
            if self.call("ask", json.dumps(request).encode(), answer_to(request)) is not None:
                return

    @task(1)
    def leave(self):
        self.end_session()


class OrderBookUser(Asker):
    service = order_book


class LimiterUser(Asker):
    service = limiter


class NewsroomUser(Asker):
    service = newsroom


class TelemetryUser(Asker):
    service = telemetry


class TransfersUser(Asker):
    service = transfers
