"""What a client of the locks sends. Requests have ids, so it may safely ask again when it got no answer."""

import json

from upheaval import NotSent, OutcomeUnknown

ATTEMPTS = 10


class LockClient:
    def __init__(self, client, name):
        self.client = client
        self.name = name
        self.count = 0

    def acquire(self, lock):
        """The token, or None when another client holds the lock."""
        return self.send("acquire", lock, who=self.name).get("token")

    def release(self, lock, token):
        return self.send("release", lock, token=token)["ok"]

    def take_away(self, lock):
        """From a holder that seems to be dead."""
        return self.send("break", lock)["ok"]

    def is_current(self, lock, token):
        return self.send("check", lock, token=token)["ok"]

    def send(self, do, lock, **fields):
        self.count += 1
        request = json.dumps({"id": f"{self.name}-{self.count}", "do": do, "lock": lock, **fields}).encode()
        for _ in range(ATTEMPTS):
            try:
                return json.loads(self.client.request(request))
            except (NotSent, OutcomeUnknown):
                continue
        raise TimeoutError(f"no answer to {request} in {ATTEMPTS} attempts")
