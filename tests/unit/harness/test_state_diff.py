"""Where two states differ, for a reader."""

import json

import pytest

from upheaval.checkers.states.state_diff import state_difference

NAMES = ("member 0", "member 2")


def as_json(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (
            [b"same", as_json({"balances": {"ann": 5, "bob": 1}})],
            [b"same", as_json({"balances": {"ann": 7, "bob": 1}})],
            "byte 21 of message 2 is the first that differs; ['balances']['ann'] is 5 in member 0 and 7 in member 2",
        ),
        ([as_json({"a": [1, {"b": 2}]})], [as_json({"a": [1, {"b": 2, "c": 3}]})], "['a'][1] is {} in member 0 and"),
        (
            [as_json({"a": 1, "b": 2})],
            [as_json({"b": 2, "a": 1})],
            "as JSON both are equal: keys come in another order",
        ),
        (
            [as_json({"a": ["x", "y"]})],
            [as_json({"a": ["y", "x"]})],
            "the elements of ['a'] are the same in another order",
        ),
        ([as_json([1, 2, 3])], [as_json([1, 2])], "the whole is [1, 2, 3] in member 0 and [1, 2] in member 2"),
        ([as_json(True)], [as_json(1)], "the whole is true in member 0 and 1 in member 2"),
        ([b'{"a":', b" 1}"], [b'{"a":', b" 2}"], "['a'] is 1 in member 0 and 2 in member 2"),
        (
            [b"ann=5"],
            [b"ann=7"],
            "byte 4 of message 1 is the first that differs; member 0 has 'ann=5', member 2 has 'ann=7'",
        ),
        ([b"\xff\x00\x01"], [b"\xff\x00\x02"], "member 0 has ff0001, member 2 has ff0002"),
        ([b"a", b"b"], [b"a"], "member 0 wrote 2 messages, member 2 1, those of both are equal"),
    ],
)
def test_what_differs_is_said(one: list[bytes], other: list[bytes], said: str) -> None:
    assert said in state_difference(one, other, NAMES)


def test_what_is_said_is_short_whatever_the_state_is() -> None:
    one, other = as_json({"k" * 50: "a" * 10_000}), as_json({"k" * 50: "b" * 10_000})
    assert len(state_difference([one], [other], NAMES)) < 400
    deep = b"[" * 100_000
    assert "is the first that differs" in state_difference([deep + b"1"], [deep + b"2"], NAMES)
