"""The choices of a tape as rows."""

import json

from upheaval_pipeline.tapes import choices_of


def test_spans_are_numbered_by_their_names_and_inner_ones_have_both_names() -> None:
    damage = [{"percent": 5}, {"percent": 7}]
    tape = {"members": 3, "fault": [{"kind": "kill"}, {"kind": "cut"}], "checksums": [{"damage": damage}]}
    assert choices_of(json.dumps(tape)) == [
        ("", 0, "members", "3"),
        ("fault", 0, "kind", "kill"),
        ("fault", 1, "kind", "cut"),
        ("checksums.damage", 0, "percent", "5"),
        ("checksums.damage", 1, "percent", "7"),
    ]


def test_a_seed_without_a_tape_has_no_choices() -> None:
    assert choices_of(None) == choices_of("{}") == []


def test_what_is_no_tape_has_no_choices() -> None:
    assert choices_of("no JSON") == choices_of("[1]") == choices_of('{"fault": [1, "kill"]}') == []
