"""The promises: one place for ids and sentences, which the documents repeat."""

import re
from pathlib import Path

from upheaval.checkers.promises import Promise, promise_named

GUARANTEES = Path(__file__).parents[3] / "docs" / "guarantees.md"


def test_the_documents_say_id_and_sentence_of_each_promise() -> None:
    said = re.findall(r"^\*\*([^*]+)\*\* \(`([a-z-]+)`\)\.", GUARANTEES.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(said) == sorted((promise.sentence, promise.value) for promise in Promise)


def test_a_promise_is_its_id_and_not_its_words() -> None:
    assert Promise("logs-equal") is Promise.LOGS_EQUAL
    assert f"{Promise.LOGS_EQUAL}" == "logs-equal"
    assert promise_named("logs are equal") is None
