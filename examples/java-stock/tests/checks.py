"""What the stock should answer."""

from tests.clerk import ANSWER, REQUEST
from upheaval import Model


class Item(Model):
    """One item: requests for different ones have nothing to do with each other."""

    @staticmethod
    def partition(request):
        return str(REQUEST.unpack(request.payload)[1])

    def __init__(self):
        self.left = 0

    def apply(self, request):
        number, _, add = REQUEST.unpack(request.payload)
        self.left += add
        return ANSWER.pack(number, self.left)
