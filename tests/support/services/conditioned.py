"""Lock services whose state depends on what surrounds their process; all members of one process are wrong alike."""

import datetime as dt
import os
import random
import time
from pathlib import Path
from typing import Any

from locks import Locks

LIMIT = "UPHEAVAL_TEST_LIMIT"


class _Key:
    """Has no hash of its own."""


class Dated(Locks):
    """Writes down the year."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = dt.datetime.now(dt.UTC).year


class Booted(Locks):
    """Writes down whether the machine has been up for long."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = time.monotonic() > 5_000_000


class Zoned(Locks):
    """Writes down the time of the log as clocks on the wall show it."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = dt.datetime.fromtimestamp(86_400).strftime("%H:%M")  # noqa: DTZ006


class Configured(Locks):
    """Reads a variable that need not be there."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = os.environ.get(LIMIT, "none")


class Demanding(Locks):
    """Does not start without the variable, and depends on it in nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = os.environ[LIMIT]


class Placed(Locks):
    """Writes down whether the current directory is empty."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = any(Path().iterdir())


class Addressed(Locks):
    """Writes down which of a few new objects comes first in a set of them."""

    def take(self, key: str, request_id: Any) -> None:
        keys = [_Key() for _ in range(6)]
        self.holders[key] = keys.index(next(iter(set(keys))))


_DRAWN = random.random()


class Drawn(Locks):
    """Writes down what was drawn when its module was loaded, once for all members of a process."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = _DRAWN


class Right(Locks):
    """Uses what the others do, in ways that the state does not depend on."""

    def take(self, key: str, request_id: Any) -> None:
        drawn = random.Random(request_id).random()
        then = dt.datetime.fromtimestamp(86_400, dt.UTC)
        assert isinstance(then.date(), dt.date)
        assert then.date() < dt.date.today()  # noqa: DTZ011
        self.holders[key] = [drawn, then.isoformat(), repr(then.date()), sorted({f"{key}-{n}" for n in range(6)})]
