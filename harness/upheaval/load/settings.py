"""What the process that runs the locust users receives, and what it reports. Knows no locust.

All of it travels as JSON: the settings on its command line; on its standard output one message a line, which is an
object with one field, by the name of what it reports; on its standard input the same, by the name of what is to change.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from upheaval.records import OWN_SYSTEM, Json, jsonfields

# The names of what may change.
RATE: Final = "rate"

# The names of the messages.
READY: Final = "ready"
PROGRESS: Final = "progress"
STATISTICS: Final = "statistics"

USERS_MODULE: Final = "upheaval.load.users"
SHORT_NAMES: Final = {
    "workbench": f"{USERS_MODULE}:WorkbenchUser",
    "register": f"{USERS_MODULE}:RegisterUser",
    "append": f"{USERS_MODULE}:AppendUser",
    "echo": f"{USERS_MODULE}:EchoUser",
    "ledger": f"{USERS_MODULE}:LedgerUser",
    "timers": f"{USERS_MODULE}:TimersUser",
}


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """One load: `users` of one class at `rate` operations a second each (0: as fast as the answers come).

    `tls` names the files of the users' certificate, and `credentials_file` holds their principal and secret, where
    they need any. `addresses` says where to dial for an endpoint that is none on this machine. With `page`, the
    descriptor of a listening socket, locust's page is served there and starts the load; users, spawn rate and duration
    are then what its form shows first, and the time from the first start to the end of all. Without a duration nothing
    but the end of standard input ends it. `system`, `run_id`, `host`, `client` and `bridge` are the cluster's,
    see `upheaval.system.WayIn`.
    """

    endpoints: str
    history: str
    users: int
    duration_s: float | None
    user: str = SHORT_NAMES["workbench"]
    rate: float = 10.0
    spawn_rate: float = 50.0
    timeout_s: float = 5.0
    seed: int = 1
    first_id: int = 0
    addresses: Mapping[str, str] = field(default_factory=dict)
    page: int | None = None
    tls: Mapping[str, str] = field(default_factory=dict)
    credentials_file: str = ""
    system: str = OWN_SYSTEM
    run_id: str = ""
    host: str = ""
    client: str = ""
    bridge: str = ""

    def to_json(self) -> str:
        """One line, for the command line of the users' process."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "LoadSettings":
        """Fields that are not known are left out."""
        fields = jsonfields.parse_object(text)
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load is. `duration_s` is None for one that is ended by hand."""

    users: int
    requests: int
    failures: int
    per_second: float
    elapsed_s: float
    duration_s: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """Locust's statistics of one kind of operation; times are milliseconds from the intended start."""

    name: str
    requests: int
    failures: int
    per_second: float
    p50_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float

    @property
    def successes(self) -> int:
        """Requests that were answered as they should be."""
        return self.requests - self.failures


@dataclass(frozen=True, slots=True)
class Statistics:
    """All rows, their sum, the failures by their text, and what the tasks of users raised by its text."""

    rows: tuple[Row, ...]
    total: Row
    errors: Mapping[str, int]
    raised: Mapping[str, int] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Json]:
        """As a message of the users' process holds it."""
        rows: list[Json] = [_fields_of(row) for row in self.rows]
        total = _fields_of(self.total)
        return {"rows": rows, "total": total, "errors": dict(self.errors), "raised": dict(self.raised)}

    @classmethod
    def from_fields(cls, fields: Any) -> "Statistics":
        """From a message of the users' process."""
        return cls(tuple(map(_row, fields["rows"])), _row(fields["total"]), fields["errors"], fields["raised"])


def _row(fields: dict[str, Any]) -> Row:
    return Row(**{name: fields[name] for name in Row.__dataclass_fields__})


def _fields_of(row: Row) -> dict[str, Json]:
    return {**asdict(row), "successes": row.successes}
