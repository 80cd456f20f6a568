"""How the users of these services ask: again until there is an answer. Their requests have ids, so that may be."""

import json

from upheaval import NotSent, OutcomeUnknown

ATTEMPTS = 20


class Asking:
    def __init__(self, cluster, name):
        self.client = cluster.client(timeout_s=2)
        self.name = name
        self.count = 0

    def ask(self, do, **fields):
        self.count += 1
        request = json.dumps({"id": f"{self.name}-{self.count}", "do": do, **fields}).encode()
        for _ in range(ATTEMPTS):
            try:
                return json.loads(self.client.request(request))
            except (NotSent, OutcomeUnknown):
                continue
        raise TimeoutError(f"no answer to {request!r} in {ATTEMPTS} attempts")
