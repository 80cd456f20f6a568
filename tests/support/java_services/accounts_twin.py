"""The twin of `kinds.Accounts`: its logs and its snapshots are those of the service in Java, byte for byte."""

from upheaval import ClusteredService


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
