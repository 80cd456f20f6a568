"""Small JSON becomes dataclasses by the types of their fields; what does not fit is one line with file and field."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import given, strategies as st

from upheaval.errors import UsageError
from upheaval.records import jsonfields
from upheaval.records.jsonfields import (
    Called,
    FieldError,
    FilePath,
    Json,
    OneOf,
    Within,
    decode,
    is_utf8,
    parse,
    read_file,
    read_object,
    read_values,
    to_json,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
)


class Fruit(StrEnum):
    APPLE = "apple"


@dataclass(frozen=True, slots=True)
class Inner:
    number: int


@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    count: Annotated[int, Within(1, 9)]
    fruit: Annotated[Fruit, Called("food")]
    anything: Json
    inner: Inner | None
    items: tuple[Inner, ...]
    is_new: bool
    kind: Annotated[str, OneOf(("a", "b"))] = "a"
    numbers: tuple[int, ...] = ()
    more: Mapping[str, Json] = field(default_factory=dict)


GOOD: dict[str, Json] = {
    "name": "n",
    "count": 3,
    "fruit": "apple",
    "anything": [1, {"x": None}],
    "inner": {"number": 1},
    "items": [{"number": 2}, {"number": 3}],
    "is_new": True,
    "unknown": "is passed over",
}


def test_a_dataclass_is_made_by_its_types() -> None:
    made = decode(Outer, {**GOOD, "kind": "b", "numbers": [4, 5], "more": {"y": 1}})
    items = (Inner(2), Inner(3))
    assert made == Outer("n", 3, Fruit.APPLE, [1, {"x": None}], Inner(1), items, True, "b", (4, 5), {"y": 1})


@pytest.mark.parametrize("absent", [{}, {"kind": None, "numbers": None, "more": None, "inner": None, "anything": None}])
def test_what_is_missing_or_null_has_its_default(absent: dict[str, Json]) -> None:
    given = {name: value for name, value in GOOD.items() if name not in ("inner", "anything")}
    made = decode(Outer, {**given, **absent})
    assert (made.kind, made.numbers, made.more, made.inner, made.anything) == ("a", (), {}, None, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": None}, "field 'name' must be a string, not null"),
        ({"count": True}, "field 'count' must be an integer, not true"),
        ({"count": 10}, "field 'count' must be 1 to 9, not 10"),
        ({"fruit": "pear"}, "unknown food 'pear'"),
        ({"fruit": 1}, "field 'fruit' must be a string, not 1"),
        ({"inner": [1]}, "field 'inner' must be an object, not [1]"),
        ({"inner": {"number": "1"}}, "field 'number' must be an integer, not \"1\""),
        ({"items": [{"number": 1}, 2]}, "field 'items' must be a list of objects, not"),
        ({"items": [{}]}, "field 'number' must be an integer, not missing"),
        ({"is_new": 1}, "field 'is_new' must be true or false, not 1"),
        ({"kind": "c"}, "field 'kind' must be a or b, not \"c\""),
        ({"numbers": [1, True]}, "field 'numbers' must be a list of integers, not [1, true]"),
        ({"more": "x"}, "field 'more' must be an object, not \"x\""),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Json], said: str) -> None:
    with pytest.raises(FieldError) as caught:
        decode(Outer, {**GOOD, **change})
    assert str(caught.value).startswith(said)


KINDS: list[Json] = [None, True, 3, 10, 0.5, "a", "apple", [1], [True], [{"number": 1}], {"number": 1}, {}]


def _outcome(given: Mapping[str, Json], required: tuple[str, ...]) -> str:
    try:
        return repr(decode(Outer, given, required))
    except FieldError as error:
        return str(error)


@pytest.mark.parametrize("required", [(), ("numbers",), ("kind", "more")])
@given(
    changes=st.lists(
        st.dictionaries(st.sampled_from([each.name for each in fields(Outer)]), st.sampled_from(KINDS), max_size=2),
        min_size=1,
        max_size=4,
    )
)
def test_what_was_decoded_before_changes_nothing(changes: list[dict[str, Json]], required: tuple[str, ...]) -> None:
    """Objects of types that were seen before are looked at less closely."""
    alone = []
    for change in changes:
        jsonfields._plan.cache_clear()
        alone.append(_outcome({**GOOD, **change}, required))
    jsonfields._plan.cache_clear()
    assert [_outcome({**GOOD, **change}, required) for change in changes * 2] == alone * 2


def test_a_default_does_not_stand_for_what_is_required() -> None:
    with pytest.raises(FieldError, match="field 'kind' must be a string, not missing"):
        decode(Outer, GOOD, ("kind",))


def test_files_and_lines_are_named(tmp_path: Path) -> None:
    path = tmp_path / "inner.json"
    path.write_text('{"number": 1}\n{"number": null}\n')
    assert next(read_values(lambda given: decode(Inner, given), path)) == (1, Inner(1))
    with pytest.raises(UsageError, match=r"inner\.json:2: field 'number' must be an integer, not null"):
        list(read_values(lambda given: decode(Inner, given), path))
    path.write_text(json.dumps({}))
    with pytest.raises(UsageError, match=r"inner\.json: field 'number' must be an integer, not missing"):
        read_file(Inner, path)


@given(st.text(alphabet='{}[]":,0123456789eE+-. \n\\utrflsanN', max_size=12) | VALUES.map(json.dumps))
def test_text_is_parsed_as_the_library_does(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            parse(text)
    else:
        assert json.dumps(parse(text)) == json.dumps(expected)


@dataclass(frozen=True, slots=True)
class Places:
    folder: FilePath
    others: tuple[FilePath, ...] = ()


def test_names_of_files_are_text_in_json(tmp_path: Path) -> None:
    """A locale without their characters has them as surrogates, which no reader takes."""
    name = "b\u00fccher"
    as_ascii = os.fsencode(name).decode("ascii", "surrogateescape")
    path = tmp_path / "places.json"
    path.write_text(to_json({"folder": as_ascii, "others": (as_ascii, "a")}), encoding="utf-8")
    assert read_object(path) == {"folder": name, "others": [name, "a"]}
    assert read_file(Places, path) == Places(name, (name, "a"))


def test_a_name_that_is_not_utf8_is_refused() -> None:
    name = os.fsdecode(b"b\xfccher")
    assert not is_utf8(name)
    with pytest.raises(UsageError, match=re.escape(r"'b\udcfccher' is not UTF-8: rename it")):
        to_json({"folder": name})


OPEN_IN_ASCII = """
import sys
from dataclasses import dataclass
from pathlib import Path
from upheaval.records.jsonfields import FilePath, read_file

@dataclass
class Place:
    folder: FilePath

assert sys.getfilesystemencoding() == "ascii"
assert Path(read_file(Place, Path(sys.argv[1])).folder).is_dir()
"""


def test_a_name_that_was_written_under_utf8_is_opened_under_ascii(tmp_path: Path) -> None:
    folder, path = tmp_path / "b\u00fccher", tmp_path / "place.json"
    folder.mkdir()
    path.write_text(to_json({"folder": str(folder)}), encoding="utf-8")
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = {**os.environ, **locale, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", OPEN_IN_ASCII, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
