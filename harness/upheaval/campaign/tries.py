"""The tries of a search, in a file of lines. An interrupted search continues from it, since it takes the same path."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

import upheaval_chaos
import upheaval_node
from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.tape import Fields, Span
from upheaval.errors import UsageError
from upheaval.records import OWN_SYSTEM, FieldError, Json, jsonfields, write_atomically
from upheaval.records.own_source import code_digest, source_digest
from upheaval.scenario import OwnCode
from upheaval_node import __version__

TRIES_FILE: Final = "tries.jsonl"
TEXT_TRIES_FILE: Final = "scenario-tries.jsonl"


@dataclass(frozen=True, slots=True)
class Try:
    """The result of running a tape: the fingerprints of all findings that are not valid, and how far the run came.

    A live tape may take several runs. It has the wanted fingerprint if enough of them are alike.
    """

    fingerprints: tuple[Fingerprint, ...]
    run_ms: int = 0
    """How long the run took: in virtual time, if it is simulated."""
    operations: int = 0
    runs: int = 1
    alike: int = 0
    """How many of several runs fail alike."""
    digest: str = field(default="", compare=False)
    """That of a simulated execution that has just run; not stored."""

    def to_fields(self) -> dict[str, Json]:
        """The JSON fields."""
        fingerprints: list[Json] = [fingerprint.to_fields() for fingerprint in self.fingerprints]
        fields: dict[str, Json] = {
            "fingerprints": fingerprints,
            "run_ms": self.run_ms,
            "operations": self.operations,
        }
        return fields if self.runs == 1 else {**fields, "runs": self.runs, "alike": self.alike}


def code_fields(own: OwnCode | None, source: str = "", system: str = OWN_SYSTEM) -> dict[str, Json]:
    """The fields that identify a user's code: names and digests of the service, its users and its model. None for
    shipped services.

    `source` is the class path of a service in Java.
    """
    if own is None:
        return {}
    names = {"service": own.service, "user": own.user, "model": own.model, "schema": own.schema}
    digests: list[Json] = [source_digest(own.source, name) for name in (own.service, own.user, own.model)]
    if own.schema:
        digests.append(hashlib.sha256(Path(own.schema).read_bytes()).hexdigest())
    if source:
        digests.append(code_digest(source, own.service, system))
    return {"code": {**names, "digests": digests}}


@cache
def own_digest() -> str:
    """The digest of our own code and of the data beside it, which may be edited within one version."""
    whole = hashlib.sha256()
    for folder in (Path(__file__).parents[1], Path(upheaval_chaos.__path__[0]), Path(upheaval_node.__path__[0])):
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts):
            whole.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()


def search_fields(
    seed: int, planted: str | None, wanted: Fingerprint, tape: Span, code: Mapping[str, Json] = MappingProxyType({})
) -> dict[str, Json]:
    """The fields that identify a search: its first tape, the failure that it looks for, and the code that it runs."""
    return {
        **code,
        "seed": seed,
        "planted": planted,
        "version": __version__,
        "digest": own_digest(),
        "fingerprint": wanted.to_fields(),
        "tape": tape.to_fields(),
    }


class TryLog:
    """The tries of one search. Raises `UsageError` for a file with a malformed line, and for one of another search
    unless this one replaces it.
    """

    def __init__(self, file: Path, search: Mapping[str, Json], *, replaces: bool = False) -> None:
        self._file = file
        self._tries: dict[str, Try] = {}
        self._tapes: dict[str, Fields] = {}
        # The tape of an incomplete last line is tried again.
        lines = list(jsonfields.read_lines(file, torn_end_allowed=True)) if file.is_file() else []
        if lines and lines[0][1] != search:
            if not replaces:
                raise UsageError(f"{file} is of another search, or of code that has changed since: give another --out")
            lines = []
        for number, fields in lines[1:]:
            self._read(fields, number)
        file.parent.mkdir(parents=True, exist_ok=True)
        whole = [dict(search), *(fields for _, fields in lines[1:])]
        write_atomically(file, "".join(jsonfields.to_json(fields, indent=None) + "\n" for fields in whole))

    @property
    def runs(self) -> int:
        """The number of runs of all tries."""
        return sum(tried.runs for tried in self._tries.values())

    def get(self, tape: Fields) -> Try | None:
        """The known result of a tape."""
        return self._tries.get(_key(tape))

    def add(self, tape: Fields, tried: Try) -> None:
        """Add a try, in the file too."""
        self._keep(tape, tried)
        with self._file.open("a", encoding="utf-8") as stream:
            stream.write(jsonfields.to_json({"tape": tape, **tried.to_fields()}, indent=None) + "\n")

    def others(self, wanted: Fingerprint) -> dict[Fingerprint, Fields]:
        """Other broken promises, or the same one broken otherwise, with the first tape of each."""
        first: dict[Fingerprint, Fields] = {}
        for key, tried in self._tries.items():
            for fingerprint in tried.fingerprints:
                if fingerprint != wanted and fingerprint.is_broken:
                    first.setdefault(fingerprint, self._tapes[key])
        return first

    def _keep(self, tape: Fields, tried: Try) -> None:
        key = _key(tape)
        self._tries[key], self._tapes[key] = tried, tape

    def _read(self, fields: Mapping[str, Json], number: int) -> None:
        tape = fields.get("tape")
        try:
            tried = jsonfields.decode(Try, fields)
        except FieldError as error:
            raise UsageError(f"{self._file}:{number}: {error}") from None
        if not isinstance(tape, dict):
            raise UsageError(f"{self._file}:{number}: field 'tape' must be an object")
        self._keep(tape, tried)


def _key(tape: Fields) -> str:
    return hashlib.sha256(json.dumps(tape, sort_keys=True).encode()).hexdigest()
