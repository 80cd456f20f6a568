"""The runs of a lake as `upheaval ui` lists them: what the lake has of each, and its folder as long as it is there."""

import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from upheaval.checkers.promises import promise_of
from upheaval.checkers.verdict import Report
from upheaval.errors import HarnessError, UsageError
from upheaval.records import RunFolder
from upheaval.ui.places import ArchivedRun, RunRow
from upheaval_chaos.record import FaultRecord, Proof
from upheaval_node.types import S
from upheaval_pipeline.arrow_schema import arrow_schema
from upheaval_pipeline.delta import version
from upheaval_pipeline.duck import duck_engine
from upheaval_pipeline.lake import Lake, open_lake
from upheaval_pipeline.place import Place
from upheaval_pipeline.query import ask
from upheaval_pipeline.tables import FAULTS, HISTORY, TRACE, readable_run_id
from upheaval_pipeline.verdicts import last_judged

RUNS_MAX: Final = 10_000
_VERSIONED: Final = ("runs", "verdicts")
"""The tables whose commits change the list."""
_ROWS: Final = """
SELECT r.run, f.created, CASE WHEN r.created = f.created THEN '' ELSE r.created END AS ingested, r.system, r.version,
    r.runtime, coalesce(r.scenario, '') AS scenario, r.seed, r.folder,
    get_json_object(f.manifest, '$.planted') AS planted, j.verdict, j.broken
FROM ran AS r JOIN runs AS f ON f.run = r.run LEFT JOIN judged AS j ON j.run = r.run ORDER BY r.created DESC, r.run
"""
_TIMED: Final = {"history": HISTORY, "faults": FAULTS, "trace": TRACE}
_NEW: Final = "new_"
_EXTENTS: Final = f"""
SELECT run, min(begin_ns), max(end_ns) FROM (
    SELECT run, min(invoke_ns) AS begin_ns, max(coalesce(complete_ns, invoke_ns)) AS end_ns
    FROM {_NEW}history GROUP BY run
    UNION ALL SELECT run, min(inject_begin_ns), max(coalesce(heal_end_ns, inject_begin_ns))
    FROM {_NEW}faults GROUP BY run
    UNION ALL SELECT run, min(ts), max(ts) FROM {_NEW}trace WHERE ts <> 0 GROUP BY run) GROUP BY run
"""
_UNKNOWN: Final = (None, None)


class LakePlace:
    """Implements `upheaval.ui.places.Place`. What is read is kept until the lake changes."""

    def __init__(self, where: str, runs_max: int = RUNS_MAX) -> None:
        """Raises `UsageError` for what is no lake."""
        open_lake(where)
        self._where = where
        self._runs_max = runs_max
        self._known = 0
        """The number of runs of the lake, those left out of the list too."""
        self._lock = threading.Lock()
        self._versions: tuple[int | None, ...] = ()
        self._rows: list[RunRow] = []
        self._extents: dict[tuple[str, str], tuple[int | None, int | None]] = {}
        """When each run began and ended, by run and batch: a batch never changes."""

    @property
    def title(self) -> str:
        """Where the lake is, and how much of it the list has."""
        left_out = self._known > self._runs_max
        return f"{self._where} (the newest {self._runs_max:,} of {self._known:,} runs)" if left_out else self._where

    def rows(self) -> list[RunRow]:
        """The runs that were made last, the newest first. Raises `UsageError` for a damaged lake."""
        with self._lock:
            versions = tuple(version(Place(self._where), table) for table in _VERSIONED)
            if versions != self._versions:
                self._read(open_lake(self._where))
                self._versions = versions
            return self._rows

    def path(self, name: str) -> Path | None:
        """The folder of a run, where it still is and has that run."""
        row = self._row(name)
        folder = None if row is None or row.folder is None else Path(row.folder)
        try:
            return folder if folder is not None and readable_run_id(RunFolder(folder)) == name else None
        except HarnessError:
            return None

    def archived(self, name: str) -> ArchivedRun | None:
        """What the lake has of a run; None of one that it has not."""
        row = self._row(name)
        if row is None:
            return None
        lake = open_lake(self._where)
        report = last_judged(lake, [name]).get(name)
        records = lake.read("faults", arrow_schema(FAULTS), [name])
        faults = [_fault(fields) for fields in records if fields["_reject"] is None]
        labels = {} if row.error else _labels(lake, name)
        begin_ns, _ = self._extents.get((name, lake.counting("runs", [name]).get(name, "")), _UNKNOWN)
        return ArchivedRun(row, report if isinstance(report, Report) else None, faults, labels, begin_ns or 0)

    def campaigns(self) -> Mapping[str, Path]:
        """None: seeds are asked for in SQL."""
        return {}

    def new_runs(self) -> Path:
        """Raises `UsageError`."""
        raise UsageError("no run is made in a lake: start `upheaval ui --dir RUNS`")

    def _row(self, name: str) -> RunRow | None:
        return next((row for row in self.rows() if row.name == name), None)

    def _read(self, lake: Lake) -> None:
        known = lake.runs("runs")
        batches = lake.counting("runs", known)
        with duck_engine() as engine:
            answer = ask(engine, lake, _ROWS, self._runs_max)
        records: list[dict[str, Any]] = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        extents = {key: self._extents.get(key) for key in ((one["run"], batches[one["run"]]) for one in records)}
        read = _extents(lake, [run for (run, _), extent in extents.items() if extent is None])
        self._extents = {key: extent or read.get(key[0], _UNKNOWN) for key, extent in extents.items()}
        self._known = len(known)
        entries = ((run, lake.entry("runs", run)) for run in known)
        unreadable = [
            RunRow(run, 0, error=entry.unreadable) for run, entry in entries if entry is not None and entry.unreadable
        ]
        self._rows = [
            *(_run_row(fields, *self._extents[fields["run"], batches[fields["run"]]]) for fields in records),
            *unreadable,
        ]


def _extents(lake: Lake, runs: Sequence[str]) -> dict[str, tuple[int | None, int | None]]:
    """When some runs began and ended, by their clocks."""
    if not runs:
        return {}
    with duck_engine() as engine:
        for table, columns in _TIMED.items():
            engine.add_table(f"{_NEW}{table}", lake, table, columns, runs)
        rows: Sequence[tuple[Any, ...]] = engine.answer(_EXTENTS, len(runs)).rows
    return {run: (begin_ns, end_ns) for run, begin_ns, end_ns in rows}


def _run_row(fields: Mapping[str, Any], begin_ns: int | None, end_ns: int | None) -> RunRow:
    return RunRow(
        fields["run"],
        _written_ns(fields["created"] or fields["ingested"] or ""),
        fields["created"] or "",
        (fields["system"] or "").partition(":")[0],
        fields["version"],
        fields["runtime"],
        fields["scenario"],
        fields["seed"],
        fields["planted"],
        fields["verdict"],
        tuple(promise_of(promise).sentence for promise in fields["broken"] or ()),
        None if begin_ns is None or end_ns is None else end_ns - begin_ns,
        folder=fields["folder"],
        ingested=fields["ingested"] or "",
    )


def _written_ns(created: str) -> int:
    try:
        return int(datetime.fromisoformat(created).timestamp() * S)
    except ValueError:
        return 0


def _fault(fields: Mapping[str, Any]) -> FaultRecord:
    values = {name: value for name, value in fields.items() if name not in ("run", "line", "_reject")}
    proofs = {name: None if values[name] is None else Proof(**values[name]) for name in ("inject_proof", "heal_proof")}
    return FaultRecord(**values | proofs | {"members": tuple(values["members"] or ())})


def _labels(lake: Lake, name: str) -> Mapping[str, str]:
    rows = lake.read("runs", arrow_schema("run string, labels map<string, string>"), [name])
    return {label: value for row in rows for label, value in row["labels"] or ()}
