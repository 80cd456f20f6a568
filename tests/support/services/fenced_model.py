"""What the lock service with fencing tokens should answer, and what it promises."""

import os
from typing import Any

from upheaval.model import Model, Request


class Locks(Model):
    def __init__(self) -> None:
        self.holders: dict[str, str] = {}
        self.token = 0
        self.answers: dict[str, Any] = {}

    def apply(self, request: Request) -> Any:
        asked = request.json()
        if asked["id"] not in self.answers:
            self.answers[asked["id"]] = self.answer(asked["do"], asked["lock"], asked.get("who", ""))
        return self.answers[asked["id"]]

    def answer(self, do: str, lock: str, who: str) -> Any:
        if do == "acquire" and lock not in self.holders:
            self.holders[lock] = who
            self.token += 1
            return {"ok": True, "token": self.token}
        if do == "acquire":
            return {"ok": False}
        if do == "release":
            return {"ok": self.holders.pop(lock, None) is not None}
        return {"holder": self.holders.get(lock)}


class Failing(Locks):
    """Has a defect of its own."""

    def answer(self, do: str, lock: str, who: str) -> Any:
        if do == "release":
            raise KeyError(lock)
        return super().answer(do, lock, who)


class Endless(Model):
    """Never ends."""

    def apply(self, request: Request) -> Any:
        while True:
            pass


class Loud(Locks):
    """Prints bytes that are no text."""

    def apply(self, request: Request) -> Any:
        os.write(1, b"asked \xff\n")
        os.write(2, b"asked \xff\n")
        return super().apply(request)
