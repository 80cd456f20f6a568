"""Twins of `kinds.Accounts` and `kinds.Wrong$AnswersEarly`: their logs, answers and snapshots are those of the services
in Java, byte for byte. And a model of requests that add at once.
"""

from upheaval import ClusteredService, Model


class Accounts(ClusteredService):
    def __init__(self):
        self.cluster = None
        self.balances, self.holds = {}, {}
        self.count = self.timers = self.logged = 0

    def on_start(self, cluster, snapshot_image):
        self.cluster = cluster
        while snapshot_image is not None and (message := snapshot_image.read()) is not None:
            self.restore(bytes(message).decode().split(" "))

    def restore(self, words):
        match words[0]:
            case "count" | "timers" | "logged":
                setattr(self, words[0], int(words[1]))
            case "balance":
                self.balances[words[1]] = int(words[2])
            case "hold":
                self.holds[int(words[1])] = words[2:]

    def on_session_message(self, session, timestamp, payload, position):
        if session is None:
            self.logged += 1
            return
        self.count += 1
        words = bytes(payload).decode().split(" ")
        name = words[1]
        if words[0] == "later":
            self.timers += 1
            self.holds[self.timers] = words[1:3]
            self.cluster.schedule_timer(self.timers, timestamp + int(words[3]))
        else:
            self.add(name, words[2])
        session.respond(f"{name} {self.balances.get(name, 0)} #{self.count}".encode())

    def add(self, name, amount):
        self.balances[name] = self.balances.get(name, 0) + int(amount)

    def on_timer_event(self, correlation_id, timestamp):
        held = self.holds.pop(correlation_id, None)
        if held is not None:
            self.add(*held)
            self.cluster.offer(f"fired {correlation_id}".encode())

    def on_take_snapshot(self, publication):
        lines = [f"{name} {getattr(self, name)}" for name in ("count", "timers", "logged")]
        lines += [f"balance {name} {balance}" for name, balance in sorted(self.balances.items())]
        lines += [f"hold {number} {' '.join(held)}" for number, held in sorted(self.holds.items())]
        for line in (*lines, "end"):
            publication.offer(line.encode())


class AnswersEarly(Accounts):
    def __init__(self):
        super().__init__()
        self.change = None

    def on_session_message(self, session, timestamp, payload, position):
        super().on_session_message(session, timestamp, payload, position)
        self.apply()

    def add(self, name, amount):
        self.change = (name, amount)

    def on_timer_event(self, correlation_id, timestamp):
        super().on_timer_event(correlation_id, timestamp)
        self.apply()

    def apply(self):
        if self.change is not None:
            super().add(*self.change)
        self.change = None


class Balances(Model):
    def __init__(self):
        self.balances, self.count = {}, 0

    def apply(self, request):
        _, name, amount = bytes(request.payload).decode().split(" ")
        self.count += 1
        self.balances[name] = self.balances.get(name, 0) + int(amount)
        return f"{name} {self.balances[name]} #{self.count}".encode()
