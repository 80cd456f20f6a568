"""What the locks should answer, and what must hold whatever happens."""

import json

from upheaval import Model, promise


class Lock(Model):
    """One lock: requests for different ones have nothing to do with each other."""

    @staticmethod
    def partition(request):
        return request.json()["lock"]

    def __init__(self):
        self.holder = None
        self.token = 0
        self.answers = {}

    def apply(self, request):
        asked = request.json()
        if asked["id"] not in self.answers:
            self.answers[asked["id"]] = self.answer(asked)
        return self.answers[asked["id"]]

    def answer(self, asked):
        is_holders = self.holder is not None and asked.get("token") == self.token
        match asked["do"]:
            case "acquire":
                if self.holder is not None:
                    return {"ok": False, "holder": self.holder}
                self.holder, self.token = asked["who"], self.token + 1
                return {"ok": True, "token": self.token}
            case "release":
                self.holder = None if is_holders else self.holder
                return {"ok": is_holders}
            case "break":
                was_held, self.holder = self.holder is not None, None
                return {"ok": was_held}
            case "check":
                return {"ok": is_holders}


@promise("a fencing token is never given twice and never goes back")
def tokens_only_grow(run):
    latest, seen = {}, set()
    for request in run.requests():
        asked = request.json()
        if request.answer is None or asked["do"] != "acquire" or asked["id"] in seen:
            continue
        seen.add(asked["id"])
        token = json.loads(request.answer).get("token")
        if token is not None:
            before = latest.get(asked["lock"], 0)
            assert token > before, f"{asked['lock']} was given with token {token} after {before}"
            latest[asked["lock"]] = token


@promise("a lock that is held has a token")
def holders_have_tokens(run):
    for _, service in run.states():
        assert service.holders.keys() <= service.tokens.keys()
