"""What the process that runs the locust users is told, and what it tells in the end. Knows no locust.

Both travel as JSON: the settings on its command line, the statistics on its standard output.
"""

import json
from dataclasses import asdict, dataclass
from typing import Final

from upheaval import jsonfields
from upheaval.jsonfields import Json

USERS_MODULE: Final = "upheaval.load.users"
SHORT_NAMES: Final = {
    "workbench": f"{USERS_MODULE}:WorkbenchUser",
    "register": f"{USERS_MODULE}:RegisterUser",
    "append": f"{USERS_MODULE}:AppendUser",
    "echo": f"{USERS_MODULE}:EchoUser",
}


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """One load: `users` of one class at `rate` operations a second each (0: as fast as the answers come)."""

    endpoints: str
    history: str
    users: int
    duration_s: float
    user: str = SHORT_NAMES["workbench"]
    rate: float = 10.0
    spawn_rate: float = 50.0
    timeout_s: float = 5.0
    seed: int = 1
    first_id: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "LoadSettings":
        fields = jsonfields.parse_object(text)
        return cls(**{name: fields[name] for name in cls.__dataclass_fields__ if name in fields})  # type: ignore[arg-type]


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
        return self.requests - self.failures


@dataclass(frozen=True, slots=True)
class Statistics:
    """All rows, their sum, and the failures by their text."""

    rows: tuple[Row, ...]
    total: Row
    errors: dict[str, int]

    def to_fields(self) -> dict[str, Json]:
        rows: list[Json] = [asdict(row) for row in self.rows]
        return {"rows": rows, "total": asdict(self.total), "errors": dict(self.errors)}

    def to_json(self) -> str:
        return json.dumps(self.to_fields())

    @classmethod
    def from_json(cls, text: str) -> "Statistics":
        fields = json.loads(text)
        return cls(tuple(Row(**row) for row in fields["rows"]), Row(**fields["total"]), dict(fields["errors"]))
