"""Accounts with mistakes about pieces, order, numbers, roles and clocks put into them: each shows without a model."""

import json
import random
import re
import time

from accounts import Accounts


class Numbered(Accounts):
    """Right: pushes have numbers of their own."""

    def __init__(self):
        super().__init__()
        self.now["pushes"] = 0

    def push(self, to):
        self.now["pushes"] += 1
        super().push(f"{self.now['pushes']} {to}")


class NumbersAgain(Numbered):
    """Counts from 1 again."""

    def load(self, state):
        self.now = {**state, "pushes": 0}


class InPieces(Accounts):
    """Right: its snapshot has a message for each field."""

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.read(snapshot_image)

    def read(self, image):
        while (piece := image.read()) is not None:
            self.now |= json.loads(piece)

    def on_take_snapshot(self, publication):
        for name, value in sorted(self.now.items()):
            publication.offer(json.dumps({name: value}, sort_keys=True).encode())


class ReadsOnePiece(InPieces):
    def read(self, image):
        self.now |= json.loads(image.read())


class SkipsOnePiece(InPieces):
    """Takes the first piece for a header."""

    def read(self, image):
        image.read()
        super().read(image)


class DropsSmall(Accounts):
    """Takes a small balance for none."""

    def state(self):
        return {**self.now, "balances": {name: value for name, value in self.now["balances"].items() if value > 100}}


class Limited(Accounts):
    """Right: answers go in the order in which they came."""

    KEPT = 30

    def answer(self, session, asked, timestamp):
        answers = self.now["answers"]
        if len(answers) >= self.KEPT:
            del answers[next(iter(answers))]
        return super().answer(session, asked, timestamp)

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps({**self.now, "answers": list(self.now["answers"].items())}).encode())

    def load(self, state):
        self.now = {**state, "answers": dict(state["answers"])}


class NewestFirst(Limited):
    """Writes answers the other way round, so that the newest ones go first."""

    def on_take_snapshot(self, publication):
        answers = list(reversed(self.now["answers"].items()))
        publication.offer(json.dumps({**self.now, "answers": answers}).encode())


class CountsSinceStart(Accounts):
    """Waives the fee of each seventh deposit since its process began."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def deposit(self, asked, timestamp):
        self.count += 1
        waived = self.now["fee"] if self.count % 7 == 0 else 0
        return super().deposit({**asked, "amount": asked["amount"] + waived}, timestamp)


class DrawsAgain(Accounts):
    """Has a generator with a seed that begins again with each start."""

    def __init__(self):
        super().__init__()
        self.chance = random.Random(7)

    def deposit(self, asked, timestamp):
        return super().deposit({**asked, "amount": asked["amount"] + self.chance.randrange(9)}, timestamp)


class TotalsOnce(Accounts):
    """Keeps a total beside the balances, and does not add it up again on loading."""

    def __init__(self):
        super().__init__()
        self.total = 0

    def deposit(self, asked, timestamp):
        self.total += asked["amount"]
        return [super().deposit(asked, timestamp), self.total]


class ForgetsInFlight(Accounts):
    """Knows how many of its messages are on their way, until it starts again."""

    def __init__(self):
        super().__init__()
        self.in_flight = 0

    def deposit(self, asked, timestamp):
        self.in_flight += 1
        return super().deposit(asked, timestamp)

    def settle(self, asked):
        self.in_flight -= 1
        self.now["settled"] += asked["amount"] + (self.in_flight < 0)


class ListenersByObject(Accounts):
    """Remembers sessions as objects, which no snapshot has."""

    def __init__(self):
        super().__init__()
        self.listeners = []

    def answer(self, session, asked, timestamp):
        if asked["do"] == "listen":
            self.listeners.append(session)
        return super().answer(session, asked, timestamp)

    def push(self, to):
        for session in self.listeners:
            session.offer(to.encode())


class SetsTimersAsLeader(Accounts):
    def deposit(self, asked, timestamp):
        if self.cluster.role.name != "LEADER":
            self.now["due"].setdefault(asked["to"][1:], timestamp)
        return super().deposit(asked, timestamp)


class OffersOfLeader(Accounts):
    """Lets the leader write into each message that it led."""

    def deposit(self, asked, timestamp):
        self.cluster.offer(json.dumps({"amount": 0, "by": self.cluster.role.name}).encode())
        return super().deposit(asked, timestamp)


class ClockInAnswer(Accounts):
    def answer(self, session, asked, timestamp):
        return [super().answer(session, asked, timestamp), time.time()]


class DrawInAnswer(Accounts):
    def answer(self, session, asked, timestamp):
        return [super().answer(session, asked, timestamp), random.random()]


class ClockInPush(Accounts):
    def push(self, to):
        super().push(f"{to} {time.monotonic()}")


class HidesAmounts(Accounts):
    """Its canonical form leaves out all digits."""

    def canonical(self, snapshot):
        return re.sub(rb"[0-9.]", b"", snapshot)
