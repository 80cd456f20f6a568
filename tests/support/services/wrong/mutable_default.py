"""Gives all sessions one list, by a mutable default."""

import json

from upheaval import ClusteredService


class Basket:
    def __init__(self, seats=[]):  # noqa: B006 - the mistake
        self.seats = seats


class MutableDefault(ClusteredService):
    def __init__(self):
        self.baskets = {}

    def on_start(self, cluster, snapshot_image):
        if snapshot_image is not None:
            told = json.loads(snapshot_image.read())["baskets"]
            self.baskets = {int(session): Basket(seats) for session, seats in told.items()}

    def on_session_message(self, session, timestamp, payload, position):
        basket = self.baskets.setdefault(session.id, Basket())
        basket.seats.append(json.loads(bytes(payload))["seat"])
        session.respond(json.dumps({"basket": len(basket.seats)}).encode())

    def on_take_snapshot(self, publication):
        told = {session: basket.seats for session, basket in self.baskets.items()}
        publication.offer(json.dumps({"baskets": told}, sort_keys=True).encode())
