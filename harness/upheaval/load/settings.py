"""What the process of the locust users receives, and what it reports. Knows no locust.

All of it is JSON. The settings are on the command line. On standard output, each message is a line with an object of
one field, named after what it reports. On standard input, each line is such an object, named after what to change.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from upheaval.records import OWN_SYSTEM, Json, jsonfields

# The names of changes.
RATE: Final = "rate"

# The names of messages.
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
    """One load: `users` of one class at `rate` operations per second each (0: as fast as the answers come).

    `tls` names the files of the users' certificate, and `credentials_file` has their principal and secret, if they need
    any. `addresses` maps an endpoint that is not on this machine to the address to dial. `page` is the descriptor of a
    listening socket: locust's page is served there and starts the load. Its form begins with users and spawn rate, and
    the duration counts from the first start. Without a duration, only the end of standard input ends the load.
    `system`, `run_id`, `host`, `client` and `bridge` belong to the cluster, see `upheaval.system.WayIn`.
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
        """Decode the settings; unknown fields are ignored."""
        fields = jsonfields.parse_object(text)
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a load. `duration_s` is None for a load that is ended by hand."""

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
        """The number of requests answered correctly."""
        return self.requests - self.failures


@dataclass(frozen=True, slots=True)
class Statistics:
    """All rows, their total, the failures by text, and by text the errors that tasks of users raised."""

    rows: tuple[Row, ...]
    total: Row
    errors: Mapping[str, int]
    raised: Mapping[str, int] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Json]:
        """The fields for a message of the users' process."""
        rows: list[Json] = [_fields_of(row) for row in self.rows]
        total = _fields_of(self.total)
        return {"rows": rows, "total": total, "errors": dict(self.errors), "raised": dict(self.raised)}

    @classmethod
    def from_fields(cls, fields: Any) -> "Statistics":
        """Decode a message of the users' process."""
        return cls(tuple(map(_row, fields["rows"])), _row(fields["total"]), fields["errors"], fields["raised"])


def _row(fields: dict[str, Any]) -> Row:
    return Row(**{name: fields[name] for name in Row.__dataclass_fields__})


def _fields_of(row: Row) -> dict[str, Json]:
    return {**asdict(row), "successes": row.successes}
