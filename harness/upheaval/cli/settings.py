"""What a project sets for all commands: the table `[tool.upheaval]` of the nearest pyproject.toml that has one.

An option comes first, then a variable of the environment such as `UPHEAVAL_RUNTIME`, then the table, then the default
of the command.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from upheaval.errors import UsageError
from upheaval.runtime_names import RUNTIMES
from upheaval_node.suggestions import did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Options = TypeVar("Options", bound="DataclassInstance")
_FILE: Final = "pyproject.toml"
_TABLE: Final = "[tool.upheaval]"
_MEMBERS_MAX: Final = 9
_OF_SERVICE: Final = ("service", "user", "model", "schema")
_OF_SYSTEM: Final = ("launcher", "jvm")
_PATHS: Final = ("runs", "schema")


@dataclass(frozen=True, slots=True)
class Settings:
    """None where nothing is set."""

    runtime: str | None = None
    system: str | None = None
    members: int | None = None
    service: str | None = None
    user: str | None = None
    model: str | None = None
    schema: Path | None = None
    """The SBE schema of the service's messages; the table's is relative to its file."""
    runs: Path = Path("runs")
    """The folder of new runs, in which the newest one is looked for; the table's is relative to its file."""
    launcher: str | None = None
    jvm: str | None = None

    def runtime_among(self, choices: Sequence[str]) -> str | None:
        """The runtime, for a command that knows only these."""
        return self.runtime if self.runtime in choices else None

    def completed(self, options: Options) -> Options:
        """The options with what they leave out of members, system and service; the rest belongs to one of these two."""
        names = ["members", "system"]
        names += _OF_SYSTEM if self._is_of_system(getattr(options, "system", None)) else ()
        names += _OF_SERVICE if getattr(options, "service", None) in (None, self.service) else ()
        known = {field.name for field in fields(options)}
        values = {name: getattr(self, name) for name in names if name in known and getattr(options, name) is None}
        if values.get("schema") is not None:
            values["schema"] = str(values["schema"])
        return replace(options, **values)

    def _is_of_system(self, wanted: str | None) -> bool:
        """Whether that is the project's system, in whichever version."""
        return None in (wanted, self.system) or _name(wanted) == _name(self.system)


def _name(system: str | None) -> str:
    return (system or "").partition(":")[0]


_KEYS: Final = tuple(field.name for field in fields(Settings))


def read_settings(environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Settings:
    """Those of a folder, the current one by default. Raises `UsageError` for a key or a value that makes no sense."""
    values: dict[str, Any] = {}
    path, table = _nearest_table((folder or Path()).absolute())
    for key, value in table.items():
        if key not in _KEYS:
            raise UsageError(f"{path}: {_TABLE}: unknown key {key!r}: use {', '.join(_KEYS)}{did_you_mean(key, _KEYS)}")
        values[key] = _checked(key, value, f"{path}: {_TABLE}: {key}")
    values |= {key: path.parent / values[key] for key in _PATHS if key in values}
    variables = os.environ if environment is None else environment
    for key in _KEYS:
        name = f"UPHEAVAL_{key.upper()}"
        text = variables.get(name)
        if text:
            values[key] = _checked(key, int(text) if key == "members" and text.isdecimal() else text, name)
    return Settings(**values)


def _checked(key: str, value: object, where: str) -> str | int | Path:
    if key == "members":
        if type(value) is not int or not 1 <= value <= _MEMBERS_MAX:
            raise UsageError(f"{where}: expected a number from 1 to {_MEMBERS_MAX}, got {value!r}")
        return value
    if not isinstance(value, str) or not value:
        raise UsageError(f"{where}: expected a text, got {value!r}")
    if key == "runtime" and value not in RUNTIMES:
        raise UsageError(
            f"{where}: unknown runtime {value!r}: use {', '.join(RUNTIMES)}{did_you_mean(value, RUNTIMES)}"
        )
    return Path(value) if key in _PATHS else value


def _nearest_table(folder: Path) -> tuple[Path, Mapping[str, object]]:
    import tomllib

    for place in (folder, *folder.parents):
        path = place / _FILE
        try:
            with path.open("rb") as stream:
                tables = tomllib.load(stream).get("tool", {})
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
        if isinstance(tables, dict) and "upheaval" in tables:
            table = tables["upheaval"]
            if not isinstance(table, dict):
                raise UsageError(f"{path}: {_TABLE}: expected a table, got {table!r}")
            return path, table
    return folder, {}
