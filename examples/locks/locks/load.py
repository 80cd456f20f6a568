"""Locust users of the locks: each holds a lock for a while, and now and then takes one away from another."""

import json

from locust import task

from upheaval import ClusterUser

LOCKS = 5


class Worker(ClusterUser):
    def on_start(self):
        super().on_start()
        self.tokens = {}

    @task(6)
    def acquire_or_release(self):
        lock = self.lock()
        if lock in self.tokens:
            self.ask("release", lock, token=self.tokens.pop(lock))
            return
        answer = self.ask("acquire", lock, who=f"worker-{self.number}")
        if answer is not None and answer["ok"]:
            self.tokens[lock] = answer["token"]

    @task(3)
    def check(self):
        lock = self.lock()
        self.ask("check", lock, token=self.tokens.get(lock, 0))

    @task(1)
    def take_away(self):
        self.ask("break", self.lock())

    def ask(self, do, lock, **fields):
        """None when no answer came."""
        answer = self.call(do, json.dumps({"id": f"load-{self.new_id()}", "do": do, "lock": lock, **fields}).encode())
        return None if answer is None else json.loads(answer)

    def lock(self):
        return f"lock-{self.random.randrange(LOCKS)}"
