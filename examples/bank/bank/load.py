"""Locust users of the bank. Each request has an id, so each one that was answered is found in the cluster's log."""

import json

from locust import task

from upheaval import ClusterUser

ACCOUNTS = 10


class Teller(ClusterUser):
    """Pays in, moves money between accounts, and now and then reads all balances."""

    @task(2)
    def deposit(self):
        self.ask("deposit", to=self.account(), amount=100)

    @task(6)
    def transfer(self):
        self.ask("transfer", **{"from": self.account(), "to": self.account(), "amount": self.random.randrange(1, 50)})

    @task(1)
    def audit(self):
        answer = self.ask("balances")
        if answer is not None:
            assert min(answer["balances"].values(), default=0) >= 0

    def ask(self, do, **fields):
        """None when no answer came."""
        answer = self.call(do, json.dumps({"id": self.new_id(), "do": do, **fields}).encode())
        return None if answer is None else json.loads(answer)

    def account(self):
        return f"account-{self.random.randrange(ACCOUNTS)}"
