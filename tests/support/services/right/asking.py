"""How the users of these services ask: again until there is an answer. Their requests have ids, so that may be."""

import json

ATTEMPTS = 20
PAUSE_S = 0.02
"""Between requests: so timers fire meanwhile."""


class Asking:
    def __init__(self, cluster, name):
        self.cluster = cluster
        self.client = cluster.client(timeout_s=2)
        self.name = name
        self.count = 0

    def ask(self, do, **fields):
        self.count += 1
        return self.ask_with({"id": f"{self.name}-{self.count}", "do": do, **fields}, accepts=None)

    def ask_with(self, request, accepts):
        answer = self.client.request(json.dumps(request).encode(), accepts, retries=ATTEMPTS)
        return json.loads(answer)

    def ask_for(self, fields):
        """The answer that repeats the id of the request: the service may send other messages, too."""
        self.count += 1
        request = {"id": f"{self.name}-{self.count}", **fields}
        return self.ask_with(request, answer_to(request))

    def come_back(self):
        """Leave, and come back with another session."""
        self.client.close()
        self.client = self.cluster.client(timeout_s=2)


def answer_to(request):
    return lambda message: json.loads(bytes(message)).get("id") == request["id"]


def work_of_two(draw):
    """Two clients ask what `draw` makes; one of them leaves now and then."""

    def work(cluster, random, count):
        users = [Asking(cluster, f"{name}-{random.getrandbits(32)}") for name in ("ann", "bob")]
        for number in range(count):
            random.choice(users).ask_for(draw(random))
            users[0].client.wait(PAUSE_S)
            if number % 20 == 19:
                users[1].come_back()

    return work
