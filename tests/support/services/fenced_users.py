"""Locust users of the lock service with fencing tokens."""

import json

from locust import task

from upheaval import ClusterUser


class Holder(ClusterUser):
    @task
    def ask(self) -> None:
        do = self.random.choice(("acquire", "release", "holder"))
        fields = {
            "id": f"r{self.new_id()}",
            "do": do,
            "lock": f"lock-{self.random.randrange(3)}",
            "who": str(self.number),
        }
        self.call(do, json.dumps(fields).encode())
