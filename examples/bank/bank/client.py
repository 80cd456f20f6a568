"""What a client of the bank sends. Requests have ids, so it may safely ask again when it got no answer."""

import json

from upheaval import NotSent, OutcomeUnknown

ATTEMPTS = 10


class BankClient:
    def __init__(self, client, name="client"):
        self.client = client
        self.name = name
        self.count = 0

    def deposit(self, account, amount):
        return self.send({"id": self.new_id(), "do": "deposit", "to": account, "amount": amount})

    def transfer(self, source, target, amount, request_id=None):
        request = {"id": request_id or self.new_id(), "do": "transfer", "from": source, "to": target}
        return self.send({**request, "amount": amount})

    def balances(self):
        return self.send({"id": self.new_id(), "do": "balances"})["balances"]

    def new_id(self):
        self.count += 1
        return f"{self.name}-{self.count}"

    def send(self, request):
        for _ in range(ATTEMPTS):
            try:
                return json.loads(self.client.request(json.dumps(request).encode()))
            except (NotSent, OutcomeUnknown):
                continue
        raise TimeoutError(f"no answer to {request} in {ATTEMPTS} attempts")
