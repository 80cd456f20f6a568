"""The reader of EDN: what histories are written in, and one line about what is none."""

import pytest

from upheaval.records import Json
from upheaval.records.edn import EdnError, read_forms
from upheaval.records.values import UnorderedSet, Word, edn_text, frozen, thawed

A = Word(":a")


def values(text: str) -> list[Json]:
    return [value for _, value in read_forms(text)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("-12", -12),
        ("+7N", 7),
        ("1.5M", Word("1.5M")),
        ("2e3", 2000.0),
        ("2/6", Word("1/3")),
        ("4/2", 2),
        (":cas", Word(":cas")),
        (":jepsen.etcd/read", Word(":jepsen.etcd/read")),
        ("a-symbol", Word("a-symbol")),
        (r'"a \"b\"\n\u0041"', 'a "b"\nA'),
        (r"\a", Word(r"\a")),
        (r"\newline", Word(r"\newline")),
        (r'"\ud83d\ude00"', "\U0001f600"),
        ("#{1 2}", UnorderedSet([1, 2])),
        ("{:a [1 (2)], 3 {}}", {Word(":a"): [1, [2]], Word("3"): {}}),
        ('#inst "2026-01-01" ; a comment', "2026-01-01"),
        ("#jepsen.history.Op{:index 0}", {Word(":index"): 0}),
        ("{:a #_ 1 2 #_3}", {Word(":a"): 2}),
        ('{[1 #{3 2}] 1, "1" 2, 1 3}', {Word("[1 #{2 3}]"): 1, "1": 2, Word("1"): 3}),
    ],
)
def test_a_form_is_a_json_value(text: str, value: Json) -> None:
    (found,) = values("{:v " + text + "\n}")
    assert found == {Word(":v"): value}
    assert type(found[Word(":v")]) is type(value)  # type: ignore[index, call-overload]


def test_forms_have_the_lines_where_they_begin() -> None:
    assert list(read_forms("{:a 1}\n\n; none\n{:a\n 2} {:a 3}\n")) == [
        (1, {A: 1}),
        (4, {A: 2}),
        (5, {A: 3}),
    ]


@pytest.mark.parametrize("around", ["[{}]", "({})", "#_ skipped [{}]", "#tagged [{}]"])
def test_a_vector_around_all_of_them_is_taken_off(around: str) -> None:
    text = around.format("{:a 1}\n #_ {:b 1} {:a 2}")
    assert list(read_forms(text)) == [(1, {A: 1}), (2, {A: 2})]


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
        ("{:a 1, :b 2, :a 3}", 1, "duplicate key :a"),
        ("{:a\n #{1 2 1}}", 2, "duplicate element 1"),
        (r'{:a "\ud83d"}', 1, "half of a surrogate pair"),
        ("{:a " + "9" * 5000 + "}", 1, "a number of 5000 digits"),
    ],
)
def test_what_is_no_edn_is_named_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(EdnError) as caught:
        list(read_forms(text))
    assert (caught.value.line, str(caught.value)) == (line, reason)


def test_values_are_the_same_by_what_they_are() -> None:
    """No two of the first line are; those of the second are, two by two."""
    different = values('{} 1 1.0 true "1" :1 nil [1] [1.0] #{1} {"a" 1} {:a 1} {"a" 1.0} \\a "a" a 1/2 "1/2" ""')
    assert len({frozen(each) for each in different}) == len(different)
    alike = values("#{1 2} #{2 1} {:a 1 :b 2} {:b 2 :a 1} [1 2] (1 2) 1/2 2/4 0.0 -0.0 #{#{1 2}} #{#{2 1}}")
    assert all(frozen(one) == frozen(other) for one, other in zip(alike[::2], alike[1::2], strict=True))


@pytest.mark.parametrize("text", ["[1 1.5 true nil]", '{:a "x", "b" #{1 2}}', "#{}", r"[\a a :a 1/2]", '"\\u00e9 \\""'])
def test_a_value_is_written_as_it_was_read(text: str) -> None:
    (value,) = values(f"#_ 1 {{:v {text}}}")
    assert edn_text(value) == f"{{:v {text}}}"
    assert edn_text(thawed(frozen(value))) == f"{{:v {text}}}"
