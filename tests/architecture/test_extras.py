"""What our packages import comes with them, or with an extra that names it; and `make setup-all` installs that."""

import re
import sys
import tomllib

import pytest

from architecture.source_tree import PACKAGES, ROOT, imported_modules, python_files

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
OF_SPARK = {"pyspark", "py4j", "grpc"}
"""With PySpark comes py4j, and with its own extra grpc."""
WITH_OTHERS = {"flask", "gevent", "greenlet", "requests"}
"""With locust, and with the client of Docker."""
OF_USERS = {"hypothesis", "pytest"}
OF_TYPE_CHECKERS = {"_typeshed", "mypy_extensions"}


def names(requirements: list[str]) -> set[str]:
    """The modules of requirements, such as `toxiproxy-python>=0.1`."""
    matches = (re.match(r"[\w-]+", text) for text in requirements if not text.startswith(("#", "-", "upheaval[")))
    return {match[0].lower().removesuffix("-python") for match in matches if match}


def imported(*folders: str) -> set[str]:
    """The top modules of others."""
    used = {name.partition(".")[0] for file in python_files(*folders) for name in imported_modules(file)}
    return used - sys.stdlib_module_names - {"upheaval", "upheaval_chaos", "upheaval_node", "upheaval_pipeline"}


def test_what_is_imported_is_named_by_an_extra() -> None:
    declared = names([*PROJECT["dependencies"], *(text for extra in EXTRAS.values() for text in extra)])
    assert imported(*PACKAGES) - OF_SPARK - WITH_OTHERS - OF_USERS - OF_TYPE_CHECKERS <= declared


def test_a_lake_needs_no_extra_but_its_own() -> None:
    assert imported("pipeline") - OF_SPARK <= names([*PROJECT["dependencies"], *EXTRAS["lake"]])


@pytest.mark.parametrize("extra", sorted(EXTRAS.keys() - {"all"}))
def test_what_an_extra_names_is_set_up(extra: str) -> None:
    lines = (ROOT / "requirements" / f"{extra}.in").read_text(encoding="utf-8").splitlines()
    assert names(EXTRAS[extra]) <= names(lines)
