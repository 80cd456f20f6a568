"""A client of the desk and what the desk should answer: messages are those of `DeskService.java`."""

import struct
from itertools import count

from upheaval import Model, NotSent, OutcomeUnknown

MESSAGE = struct.Struct("<qq")


class Desk(Model):
    """One desk."""

    def __init__(self):
        self.position = 0

    def apply(self, request):
        number, lots = MESSAGE.unpack(request.payload)
        self.position += lots
        return MESSAGE.pack(number, self.position)


class Trader:
    """Trades one lot after the other. What was sent to a leader that died has no answer: the judge looks it up."""

    def __init__(self, client):
        self.client = client
        self.numbers = count(1)

    def trade(self, lots):
        """Returns when so many were answered."""
        while lots > 0:
            lots -= self._is_answered()

    def _is_answered(self):
        try:
            self.client.request(MESSAGE.pack(next(self.numbers), 1))
        except (NotSent, OutcomeUnknown):
            return False
        return True
