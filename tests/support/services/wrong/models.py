"""What some of these services should answer: one copy of each, with nothing that can go wrong."""

from upheaval import Model


class Balances(Model):
    """Of `twice_on_retry`: a request that comes again gets the answer that it had, and changes nothing."""

    def __init__(self):
        self.balance, self.answers = 0, {}

    @staticmethod
    def partition(request):
        return request.json()["account"]

    def apply(self, request):
        asked = request.json()
        if asked["id"] not in self.answers:
            self.balance += asked["amount"]
            self.answers[asked["id"]] = self.balance
        return self.answers[asked["id"]]


class Documents(Model):
    """Of `lost_update`: who has read another version than the last one writes nothing."""

    def __init__(self):
        self.version, self.text = 0, ""

    @staticmethod
    def partition(request):
        return request.json()["name"]

    def apply(self, request):
        asked = request.json()
        if asked["do"] == "write" and asked["version"] == self.version:
            self.version, self.text = self.version + 1, asked["text"]
        return [self.version, self.text]


class Seats(Model):
    """Of `stale_cache` and `answers_early`: a read returns who took the seat last."""

    taken_by = None

    @staticmethod
    def partition(request):
        return request.json()["seat"]

    def apply(self, request):
        asked = request.json()
        if asked["do"] == "read":
            return self.taken_by
        self.taken_by = asked["id"]
        return True
