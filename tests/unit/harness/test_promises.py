"""The promises: one place for ids and sentences, and the page about them."""

import re

import pytest

import promises_page
from promises_page import CHECKERS_FOLDER, PAGE, ROOT, current, entries, sections
from upheaval.checkers.promises import Promise, promise_named

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_page_has_the_facts_of_the_code() -> None:
    assert current(TEXT) == TEXT, "run python tools/promises_page.py"
    assert {entry.promise for entry in entries()} == set(Promise)


def test_each_promise_has_a_rule_and_tests_that_name_it() -> None:
    parts = {identifier: (tests, rule) for identifier, tests, rule in sections(TEXT)}
    for entry in entries():
        tests, rule = parts[entry.promise.value]
        paths = re.findall(r"\]\(\.\./(tests/[^)]+)\)", tests)
        texts = [(ROOT / path).read_text(encoding="utf-8") for path in paths]
        names = (f"Promise.{entry.promise.name}", entry.module)
        assert rule, f"{entry.promise}: fill in its rule"
        assert any(name in text for text in texts for name in names), f"{entry.promise}: no test names it"


def test_a_rule_survives_and_changed_facts_do_not() -> None:
    assert current(TEXT.replace("Checker: ", "Checker: old ")) == TEXT
    changed = TEXT.replace("At least 100 operations", "At least 101 operations")
    assert current(changed) == changed != TEXT
    with pytest.raises(SystemExit, match="no marks"):
        current(TEXT.replace(promises_page.BEGIN, ""))


def test_every_package_of_checkers_has_a_heading() -> None:
    packages = {path.parent.name for path in CHECKERS_FOLDER.glob("*/__init__.py")}
    assert packages >= set(promises_page.GROUPS) == {entry.group for entry in entries()}


def test_links_to_promises_name_existing_ones() -> None:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("*.md")]
    ids = {promise.value for promise in Promise} | {
        re.sub(r"[^a-z- ]", "", heading.lower()).replace(" ", "-") for heading in promises_page.GROUPS.values()
    }
    linked = {found for page in pages for found in re.findall(r"promises\.md#([\w-]+)", page.read_text("utf-8"))}
    assert linked
    assert linked - ids == set()


def test_a_promise_is_its_id_and_not_its_words() -> None:
    assert Promise("logs-equal") is Promise.LOGS_EQUAL
    assert f"{Promise.LOGS_EQUAL}" == "logs-equal"
    assert promise_named("logs are equal") is None
