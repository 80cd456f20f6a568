"""Causes and explanations as values: what Spark keeps of one, and what users read."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from upheaval.checkers.own.causes import CONDITIONS, EXTERNAL, OF_MEMBERS, Cause, Explanation, parse_explanation
from upheaval.checkers.promises import Promise
from upheaval.checkers.verdict import Finding, Report, Verdict

WHOLE = Explanation((Cause.CLOCK, Cause.LOCALE), 96, "the message 'x' of session 1", ("'a'", "'b'"), "byte 3 differs")


@pytest.mark.parametrize("explanation", [WHOLE, Explanation((Cause.EACH_REPLAY,))])
def test_an_explanation_comes_back_from_json(explanation: Explanation) -> None:
    assert parse_explanation(json.loads(json.dumps(asdict(explanation)))) == explanation


def test_each_cause_has_a_sentence_of_its_own_with_a_guess() -> None:
    assert len({cause.sentence for cause in Cause}) == len(Cause)
    assert all(cause.sentence.endswith("?") for cause in Cause)
    assert {*CONDITIONS, *OF_MEMBERS} == set(Cause) - {Cause.SNAPSHOT, Cause.EACH_REPLAY, Cause.OUTSIDE}
    assert set(EXTERNAL) < set(CONDITIONS)


def test_sentences_are_shown_whole_below_a_long_line() -> None:
    finding = Finding(Promise.STATES_AGREE, Verdict.INVALID, "x" * 2000, explanation=WHOLE)
    lines = str(Report("run", (finding,))).splitlines()
    assert [line.strip() for line in lines[2:6]] == list(WHOLE.sentences)
    assert lines[4] == "  first after the entry at position 96, the message 'x' of session 1: byte 3 differs"
    assert lines[5] == "  at this entry the replay of the whole log answers 'a', the one that changes the clock 'b'"
    assert finding.evidence == "; ".join(["x" * 2000, *WHOLE.sentences])
    assert "explanation" not in Finding(Promise.STATES_AGREE, Verdict.VALID, "").to_fields()


def test_the_page_about_them_has_the_message_of_each() -> None:
    page = (Path(__file__).parents[3] / "docs" / "determinism.md").read_text()
    assert [cause for cause in Cause if cause.sentence not in page] == []
