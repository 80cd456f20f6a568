"""Lock services whose state depends on what surrounds their process; all members of one process are wrong alike."""

import datetime as dt
import json
import os
import random
import time
from pathlib import Path
from typing import Any

from locks import Locks

from upheaval_node.service.api import Cluster, SnapshotImage

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


class Late(Configured):
    """Reads it from the 71st request on, and raises there without it."""

    def take(self, key: str, request_id: Any) -> None:
        if self.requests > 70:
            super().take(key, request_id)
            self.holders[key] = int(self.holders[key])


class Demanding(Locks):
    """Does not start without the variable, and depends on it in nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.limit = os.environ[LIMIT]


class Alike(Locks):
    """Writes down hashes of a text that two hash seeds of the judge's leave alike."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = hash("lock of 322141") & 0xFFFFF


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


class Shared(Locks):
    """Counts in its class."""

    taken = 0

    def take(self, key: str, request_id: Any) -> None:
        Shared.taken += 1
        self.holders[key] = Shared.taken


class Signed(Locks):
    """Writes down which member it is."""

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        super().on_start(cluster, snapshot_image)
        self.cluster = cluster

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = self.cluster.member_id


class Busy(Locks):
    """Counts its duty cycles."""

    def do_background_work(self, now_ns: int) -> int:
        self.holders["cycles"] = self.holders.get("cycles", 0) + 1
        return 0


class Numbered(Locks):
    """Writes down its process."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = os.getpid()


class Filed(Locks):
    """Reads a file."""

    def take(self, key: str, request_id: Any) -> None:
        self.holders[key] = (Path.home() / "limit").read_text()


class Ordered(Locks):
    """Right: writes the names of all locks in whichever order, and says what of it is compared."""

    def on_take_snapshot(self, snapshot_publication: Any) -> None:
        snapshot_publication.offer(json.dumps({"requests": self.requests, "holders": {}}).encode())
        for key in set(self.holders):
            snapshot_publication.offer(json.dumps([key, self.holders[key]]).encode())

    def on_start(self, cluster: Cluster, snapshot_image: SnapshotImage | None) -> None:
        super().on_start(cluster, snapshot_image)
        while snapshot_image is not None and (message := snapshot_image.read()) is not None:
            key, self.holders[key] = json.loads(message)

    def canonical(self, snapshot: bytes) -> bytes:
        return bytes(sorted(snapshot))


class Broken(Ordered):
    """Says what is compared, and raises at it."""

    def canonical(self, snapshot: bytes) -> bytes:
        raise ValueError(len(snapshot))
