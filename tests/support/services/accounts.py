"""Accounts with fees, timers, own messages and pushes, right and with mistakes about snapshots put into them."""

import json
import time

from upheaval import ClusteredService


class Accounts(ClusteredService):
    """Right. A deposit is answered, sent to the subscriber, settled by an own message and taxed by a timer."""

    def __init__(self):
        self.cluster = None
        self.now = {"balances": {}, "fee": 0, "listener": 0, "answers": {}, "settled": 0, "due": {}, "mean": 0.0}

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        if snapshot_image is not None:
            self.load(json.loads(snapshot_image.read()))

    def load(self, state):
        self.now = state

    def state(self):
        return self.now

    def on_take_snapshot(self, publication):
        publication.offer(json.dumps(self.state(), sort_keys=True).encode())

    def on_session_message(self, session, timestamp, payload, position):
        asked = json.loads(bytes(payload))
        if session is None:
            self.settle(asked)
            return
        if asked["id"] not in self.now["answers"]:
            self.now["answers"][asked["id"]] = self.answer(session, asked, timestamp)
        session.respond(json.dumps(self.now["answers"][asked["id"]]).encode())

    def settle(self, asked):
        self.now["settled"] += asked["amount"]

    def answer(self, session, asked, timestamp):
        match asked["do"]:
            case "fee":
                self.now["fee"] = asked["amount"]
            case "listen":
                self.now["listener"] = session.id
        return self.deposit(asked, timestamp) if asked["do"] == "deposit" else self.now["fee"]

    def deposit(self, asked, timestamp):
        balances, to = self.now["balances"], asked["to"]
        balances[to] = balances.get(to, 0) + asked["amount"] - self.now["fee"]
        self.now["mean"] = self.now["mean"] * 0.9 + asked["amount"] * 0.1
        self.push(to)
        self.cluster.offer(json.dumps({"amount": asked["amount"]}).encode())
        timer = int(to[1:])
        if str(timer) not in self.now["due"]:
            self.now["due"][str(timer)] = timestamp + 70
            self.cluster.schedule_timer(timer, timestamp + 70)
        return balances[to]

    def push(self, to):
        listener = self.cluster.client_session(self.now["listener"])
        if listener is not None:
            listener.offer(to.encode())

    def on_timer_event(self, correlation_id, timestamp):
        del self.now["due"][str(correlation_id)]
        self.now["balances"][f"o{correlation_id}"] -= 1
        self.push(f"o{correlation_id}")


class Without(Accounts):
    """Its snapshot lacks `field`; a copy begins with that of a new service there."""

    field = ""

    def load(self, state):
        self.now |= state

    def state(self):
        return {name: value for name, value in self.now.items() if name != self.field}


class ForgetsBalances(Without):
    field = "balances"


class ForgetsFee(Without):
    field = "fee"


class ForgetsListener(Without):
    field = "listener"


class ForgetsAnswers(Without):
    field = "answers"


class ForgetsSettled(Accounts):
    def load(self, state):
        self.now = {**state, "settled": 0}


class ForgetsDue(Without):
    field = "due"


class RoundsMean(Accounts):
    def load(self, state):
        self.now = {**state, "mean": float(int(state["mean"]))}


class LimitsTexts(Accounts):
    """Counts by numbers, which JSON gives back as texts."""

    def __init__(self):
        super().__init__()
        self.now["counts"] = {}

    def deposit(self, asked, timestamp):
        key = int(asked["to"][1:])
        self.now["counts"][key] = self.now["counts"].get(key, 0) + 1
        return super().deposit(asked, timestamp) + self.now["counts"][key]


class SendsAtStart(Accounts):
    """Sets after a start from a snapshot one timer more with the next deposit."""

    def on_start(self, cluster, snapshot_image):
        super().on_start(cluster, snapshot_image)
        self.is_new = snapshot_image is None

    def deposit(self, asked, timestamp):
        if not self.is_new:
            self.is_new = True
            self.cluster.schedule_timer(99, timestamp + 10**9)
        return super().deposit(asked, timestamp)


class CannotLoad(Accounts):
    def load(self, state):
        self.now = state["accounts"]


class Empty(Accounts):
    """Writes the cache of answers alone, as a replay of old requests never notices."""

    def load(self, state):
        self.now |= {"answers": state["answers"]}

    def state(self):
        return {"answers": self.now["answers"]}


class ClockInMessage(Accounts):
    def deposit(self, asked, timestamp):
        self.cluster.offer(json.dumps({"amount": 0, "at": time.time()}).encode())
        return super().deposit(asked, timestamp)


class ClockInDeadline(Accounts):
    def deposit(self, asked, timestamp):
        self.cluster.schedule_timer(98, time.time_ns())
        return super().deposit(asked, timestamp)


class KeepsKeys(Accounts):
    """Its canonical form keeps the names of fields alone, and its state has a clock."""

    def canonical(self, snapshot):
        return json.dumps(sorted(json.loads(snapshot))).encode()

    def settle(self, asked):
        super().settle(asked)
        self.now["mean"] = time.time()


class Ordered(Accounts):
    """Right: its canonical form leaves out the order of what it wrote."""

    def canonical(self, snapshot):
        return json.dumps(json.loads(snapshot), sort_keys=True).encode()

    def on_take_snapshot(self, publication):
        names = {str(name) for name in self.now}
        publication.offer(json.dumps({name: self.now[name] for name in names}).encode())


class OffersAsLeader(Accounts):
    """Lets the leader alone settle."""

    def deposit(self, asked, timestamp):
        if self.cluster.role.name == "LEADER":
            return super().deposit(asked, timestamp)
        offer, self.cluster.offer = self.cluster.offer, lambda *parts: 1
        try:
            return super().deposit(asked, timestamp)
        finally:
            self.cluster.offer = offer


class CountsTime(Accounts):
    """Right: its deadlines are in the unit of the cluster's time, and it answers the clock, which decides nothing."""

    def deposit(self, asked, timestamp):
        self.cluster.schedule_timer(97, timestamp + 10**6 * {"MILLIS": 1}.get(self.cluster.time_unit.name, 1000))
        return super().deposit(asked, timestamp)
