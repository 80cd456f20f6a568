"""Locust users of `locks`."""

import json

from locust import task

from upheaval import ClusterUser


class Locker(ClusterUser):
    @task
    def lock(self) -> None:
        self.call("lock", json.dumps({"id": self.new_id(), "key": f"lock-{self.random.randrange(9)}"}).encode())
