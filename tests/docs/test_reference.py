"""Tables of reference have a row for each thing that the code has; some also have no other row."""

import re
from dataclasses import fields
from itertools import chain
from typing import Final

import pytest

import zoo_table
from support.pages import ROOT
from upheaval import pytest_plugin
from upheaval.records.run_folder import ControlRecord, Manifest
from upheaval_chaos.faults import MemberFaultKind
from upheaval_chaos.file_faults import FileFaultKind
from upheaval_chaos.host_faults import HostFaultKind
from upheaval_chaos.planted.catalogue import CATALOGUE, bug_named
from upheaval_chaos.record import FaultRecord
from upheaval_chaos.target import DatagramFaultKind, LinkFaultKind

DOCS: Final = ROOT / "docs"
FAULT_KINDS: Final = frozenset(chain(MemberFaultKind, HostFaultKind, FileFaultKind, LinkFaultKind, DatagramFaultKind))


def section(page: str, heading: str) -> str:
    """From a heading of a page to the next one."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.split(r"^#+ ", text.partition(f"# {heading}\n")[2], flags=re.MULTILINE)[0]


def first_cells(text: str) -> list[str]:
    """What is in the first column of the tables of a text, without heads."""
    rows = re.findall(r"^\| (.+?) \|.*\n(?!\|---)", text, re.MULTILINE)
    return [row for row in rows if set(row) - set("-| ")]


def names_in(cells: list[str]) -> list[str]:
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_every_fault_has_its_statement_and_its_evidence() -> None:
    statements = [name.partition(" ")[0] for name in names_in(first_cells(section("scenarios.md", "Faults")))]
    assert sorted(statements) == sorted(FAULT_KINDS)
    evidence = {name for cell in first_cells(section("scenarios.md", "Evidence")) for name in cell.split(", ")}
    assert FAULT_KINDS - evidence == {DatagramFaultKind.OMIT}, "omit is observed by the messages that are missing"


@pytest.mark.parametrize(
    ("heading", "record", "besides"),
    [
        ("manifest.json", Manifest, {"format"}),
        ("controls.jsonl", ControlRecord, set()),
        ("faults.jsonl", FaultRecord, set()),
    ],
)
def test_every_field_of_a_record_has_its_row(heading: str, record: type, besides: set[str]) -> None:
    rows = set(names_in(first_cells(section("run-folder.md", heading))))
    assert {field.name for field in fields(record)} - rows == set()
    assert besides <= rows


def test_every_metric_has_its_row() -> None:
    source = (ROOT / "node/upheaval_node/runtime/metrics.py").read_text(encoding="utf-8")
    rows = names_in(first_cells(section("metrics.md", "Metrics")))
    shown = {re.sub(r"\{[^}]*\}$", "", name) for name in rows}
    archive = {f"upheaval_archive_{what}_sessions" for what in ("control", "recording", "replay")}
    assert (shown - {"upheaval_archive_{control,recording,replay}_sessions"}) | archive == set(
        re.findall(r'"(upheaval_\w+)"', source)
    )


def test_every_setting_of_the_plugin_is_on_its_page() -> None:
    source = (ROOT / "harness/upheaval/pytest_plugin.py").read_text(encoding="utf-8")
    settings = set(re.findall(r'addini\(\s*"(\w+)"', source))
    assert settings
    pages = "".join((DOCS / page).read_text(encoding="utf-8") for page in ("pytest.md", "test-your-aeron-cluster.md"))
    assert {name for name in settings if not re.search(rf"\b{name}\b", pages)} == set()


def test_every_option_of_the_marker_and_of_the_plugin_has_its_row() -> None:
    rows = set(names_in(first_cells(section("pytest.md", "Your own service"))))
    assert set(pytest_plugin._MARKER_OPTIONS) - rows == set()
    page = (DOCS / "pytest.md").read_text(encoding="utf-8")
    options = re.findall(r"^\| `--upheaval-([a-z-]+)", page, re.MULTILINE)
    assert set(options) == set(pytest_plugin._OPTIONS)


def test_the_table_of_the_zoo_has_every_planted_bug_and_who_finds_it() -> None:
    rows = zoo_table.read_rows()
    text = zoo_table.PAGE.read_text(encoding="utf-8")
    assert zoo_table.page_with_table(text, rows) == text
    names = re.findall(r"^\| [\w -]+ \| `([\w-]+)` \|", text, re.MULTILINE)
    assert sorted(names) == [bug.name for bug in CATALOGUE]
    assert len(rows) == len({row["bug"] for row in rows})
    for row in rows:
        bug = bug_named(row["bug"])
        assert all(map(bug.is_found_by, row["promises"])), row
        assert bug.is_rare or row["seeds"] is not None, row
