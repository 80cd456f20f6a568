"""The page of the interface of a service has every name that a service can override or call, with its parameters."""

import inspect
import re
from collections.abc import Iterator
from typing import Final

import pytest

from support.pages import ROOT
from upheaval_node.service import api

PAGE: Final = (ROOT / "docs" / "service.md").read_text(encoding="utf-8")
ROWS: Final = frozenset(
    re.findall(r"`([^`]+)`", "\n".join(line for line in PAGE.splitlines() if line.startswith("| `")))
)
SPANS: Final = frozenset(re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)))


def signature_of(function: object, name: str) -> str:
    """As a reader calls it, without types."""
    parameters = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    words, has_star = [], False
    for parameter in parameters:
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            words.append("*")
            has_star = True
        words.append(f"*{parameter.name}" if parameter.kind is parameter.VAR_POSITIONAL else parameter.name)
    return f"{name}({', '.join(words)})"


def names_of(interface: type) -> Iterator[str]:
    for name, value in vars(interface).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield name
        elif inspect.isfunction(value):
            yield signature_of(value, name)


@pytest.mark.parametrize(
    "interface", [api.ClusteredService, api.Cluster, api.ClientSession], ids=lambda each: each.__name__
)
def test_a_table_has_each_name_with_its_parameters(interface: type) -> None:
    names = list(names_of(interface))
    assert names
    assert [name for name in names if name not in ROWS] == []


@pytest.mark.parametrize(
    ("interface", "subject"), [(api.SnapshotPublication, "publication"), (api.SnapshotImage, "snapshot_image")]
)
def test_the_text_has_what_snapshots_are_written_and_read_by(interface: type, subject: str) -> None:
    names = [f"{subject}.{name}" for name in names_of(interface)]
    assert names
    assert [name for name in names if name not in SPANS] == []


def test_callbacks_on_the_page_exist() -> None:
    rows = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    known = {name for interface in (api.ClusteredService, api.Cluster, api.ClientSession) for name in vars(interface)}
    assert [name for name in rows if name not in known] == []
