"""The reader of EDN: what histories are written in, and one line about what is none."""

import pytest

from upheaval.records import Json
from upheaval.records.edn import EdnError, read_forms


def values(text: str) -> list[Json]:
    return [value for _, value in read_forms(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-12", -12),
        ("+7N", 7),
        ("1.5M", 1.5),
        ("2e3", 2000.0),
        ("1/3", "1/3"),
        (":cas", ":cas"),
        (":jepsen.etcd/read", ":jepsen.etcd/read"),
        ("a-symbol", "a-symbol"),
        (r'"a \"b\"\n\u0041"', 'a "b"\nA'),
        (r"\a", "a"),
        (r"\newline", "\n"),
        ("#{1 2}", [1, 2]),
        ("{:a [1 (2)], 3 {}}", {":a": [1, [2]], "3": {}}),
        ('#inst "2026-01-01" ; a comment', "2026-01-01"),
        ("#jepsen.history.Op{:index 0}", {":index": 0}),
        ("{:a #_ 1 2 #_3}", {":a": 2}),
    ],
)
def test_a_form_is_a_json_value(text: str, value: Json) -> None:
    (found,) = values("{:v " + text + "\n}")
    assert found == {":v": value}
    assert type(found[":v"]) is type(value)  # type: ignore[index, call-overload]


def test_forms_have_the_lines_where_they_begin() -> None:
    assert list(read_forms("{:a 1}\n\n; none\n{:a\n 2} {:a 3}\n")) == [
        (1, {":a": 1}),
        (4, {":a": 2}),
        (5, {":a": 3}),
    ]


@pytest.mark.parametrize("around", ["[{}]", "({})", "#_ skipped [{}]", "#tagged [{}]"])
def test_a_vector_around_all_of_them_is_taken_off(around: str) -> None:
    text = around.format("{:a 1}\n #_ {:b 1} {:a 2}")
    assert list(read_forms(text)) == [(1, {":a": 1}), (2, {":a": 2})]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("{:a 1}\n{:a", 2, "the file ends inside {"),
        ("[{:a 1}\n", 2, "the file ends inside ["),
        ("[{:a 1}]\n{:a 1}", 2, "expected the end of the file, got '{'"),
        ("{:a 1]", 1, "expected '}', got ']'"),
        ("\n{:a 1 :b}", 2, "a map of 3 values: the last key has none"),
        ("]", 1, "expected a value, got ']'"),
        ('{:a "x}\n', 1, "a string without its end"),
        (r'{:a "\q"}', 1, r"unknown escape \q"),
        ("{:a #_}", 1, "expected a value, got '}'"),
        ("{:a 1}\n#_", 2, "the file ends inside #_"),
        ("{:a #}", 1, "unknown '#'"),
        ("{" * 100, 1, "nested deeper than 64"),
        ("#_ " * 5000 + "1", 1, "nested deeper than 64"),
    ],
)
def test_what_is_no_edn_is_named_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(EdnError) as caught:
        list(read_forms(text))
    assert (caught.value.line, str(caught.value)) == (line, reason)
