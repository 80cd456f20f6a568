"""Histories written by hand, each with one mistake, of which `upheaval check` names the operation or the line."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from upheaval.cli.main import main


@dataclass(frozen=True)
class Bad:
    """The text may have a byte order mark or other ends of lines."""

    text: str
    found: str
    options: tuple[str, ...] = ()
    status: int = 1


def judged(tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: Bad) -> tuple[int, str]:
    path = tmp_path / "history"
    path.write_bytes(bad.text.encode())
    status = main(["check", str(path), *bad.options])
    out, err = capsys.readouterr()
    return status, out + err.replace(str(path), "HISTORY")


def edn(*events: str) -> str:
    """Of `process type f value`, a line each."""
    lines = []
    for event in events:
        process, kind, f, value = event.split(" ", 3)
        lines.append(f"{{:process {process}, :type :{kind}, :f :{f}, :value {value}}}\n")
    return "".join(lines)


def wrote(process: int, value: str) -> tuple[str, str]:
    return f"{process} invoke write {value}", f"{process} ok write {value}"


def read(process: int, value: str) -> tuple[str, str]:
    return f"{process} invoke read nil", f"{process} ok read {value}"


PROCESSES = [
    # Before, an impossible read by a process without a number was valid.
    Bad(edn(*wrote(0, "1"), ":client invoke read nil", ":client ok read 9"), "HISTORY:3: expected a number", status=2),
    Bad(edn(*wrote(0, "1"), '"1" invoke read nil', '"1" ok read 9'), "HISTORY:3: expected a number", status=2),
    Bad(edn(*wrote(0, "1"), "nil invoke read nil"), "or :nemesis as :process, got nil", status=2),
    Bad(edn("0.5 invoke read nil"), "HISTORY:1: expected a number or :nemesis as :process, got 0.5", status=2),
    Bad(
        edn(":nemesis info start nil", *wrote(0, "1"), ":nemesis info stop nil", *read(1, "9")),
        "read 6 events: 2 operations; passed over 2 events of :nemesis",
    ),
]

PAIRS = [
    Bad(edn(*wrote(0, "1"), "0 ok read 9"), "HISTORY:3: process 0 has not invoked what completes here", status=2),
    Bad(edn("0 info write 1"), "HISTORY:1: process 0 has not invoked what completes here", status=2),
    Bad(edn("0 fail write 1"), "HISTORY:1: process 0 has not invoked what completes here", status=2),
    Bad(
        edn("0 invoke write 1", "0 invoke write 2"),
        "HISTORY:2: process 0 has not completed its operation of line 1",
        status=2,
    ),
    Bad(edn("0 invoke write 1", "0 done write 1"), "HISTORY:2: expected :invoke, :ok, :fail or :info", status=2),
    Bad(edn("0 invoke drain nil"), "HISTORY:1: unknown operation :drain of the model", status=2),
    Bad(
        edn("0 invoke write 1", "0 ok read 1"),
        "HISTORY:2: expected the completion of write, got that of read",
        status=2,
    ),
]

COMPLETIONS = [
    # The value of the :ok is that of the operation, as Knossos fills it in.
    Bad(edn("0 invoke write nil", "0 ok write 5", *read(1, "nil")), "operation 3, read, returned null"),
    Bad(edn("0 invoke write 3", "0 ok write 5", *read(1, "3")), "operation 3, read, returned 3"),
    Bad(edn("0 invoke write 3", "0 ok write nil", *read(1, "3")), "operation 3, read, returned 3"),
    Bad(edn(*wrote(0, "1"), "0 invoke cas [1 2]", "0 ok cas [7 2]"), "operation 3, cas 7 to 2, returned true"),
    Bad(edn(*wrote(0, "1"), "0 invoke cas nil", "0 ok cas 5"), "HISTORY:4: the value of a cas must be", status=2),
    Bad(edn("0 invoke write 3", "0 fail write 3", *read(1, "3")), "operation 3, read, returned 3"),
    Bad(
        edn("0 invoke append 1", "0 ok append 2", "0 invoke read nil", "0 ok read [1]"),
        "operation 3, read, returned [1]",
        ("--model", "list"),
    ),
    Bad(
        edn("0 invoke enqueue nil", "0 ok enqueue 2", "0 invoke dequeue nil", "0 ok dequeue 1"),
        "operation 3, dequeue, returned 1",
        ("--model", "queue"),
    ),
]

FIRSTS = [
    Bad(edn(*read(0, "0")), "operation 1, read, returned 0"),
    Bad(edn(*read(0, "nil")), "operation 1, read, returned null", ("--initial", "0")),
    Bad(edn("0 invoke cas [1 2]", "0 ok cas [1 2]"), "operation 1, cas 1 to 2", ("--initial", "0")),
    Bad(edn(*read(0, "[1 2 3]")), "it could have returned [1, 2]", ("--model", "list", "--initial", "[1 2]")),
    Bad(
        edn("0 invoke acquire nil", "0 ok acquire nil"),
        "operation 1, acquire",
        ("--model", "mutex", "--initial", "true"),
    ),
    Bad(edn(*read(0, "0")), "--initial: expected a text, got 0", ("--model", "kv", "--initial", "0"), 2),
    Bad(edn(*read(0, "0")), "--initial: the file ends inside [", ("--initial", "[1"), 2),
    Bad(edn(*read(0, "0")), "--initial: expected one value", ("--initial", "1 2"), 2),
    Bad(edn(*read(0, "0")), "--initial: expected one value", ("--initial", ""), 2),
    Bad(edn(*read(0, "0")), "--initial: expected one of the models", ("--model", "mine:Model", "--initial", "0"), 2),
]

TYPES = [
    Bad(edn(*wrote(0, "1"), *read(0, "true")), "operation 3, read, returned true; it could have returned 1"),
    Bad(edn(*wrote(0, "1"), *read(0, "1.0")), "operation 3, read, returned 1.0; it could have returned 1"),
    Bad(edn(*wrote(0, "[[1]]"), *read(0, "[[true]]")), "returned [[true]]; it could have returned [[1]]"),
    Bad(edn(*wrote(0, '{"a" {"b" 0}}'), *read(0, '{"a" {"b" false}}')), "operation 3, read"),
    Bad(edn(*wrote(0, ":a"), *read(0, '"a"')), 'returned "a"; it could have returned :a'),
    Bad(edn(*wrote(0, '":a"'), *read(0, ":a")), 'returned :a; it could have returned ":a"'),
    Bad(edn(*wrote(0, "{1 2}"), *read(0, '{"1" 2}')), "it could have returned {1: 2}"),
    Bad(edn(*wrote(0, "[0]"), "0 invoke cas [[false] 2]", "0 ok cas [[false] 2]"), "operation 3, cas [false] to 2"),
]

SETS = [
    Bad(edn(*wrote(0, "#{1 2}"), *read(0, "#{1 3}")), "returned #{1 3}; it could have returned #{1 2}"),
    Bad(edn(*wrote(0, "#{1 2}"), *read(0, "[1 2]")), "returned [1, 2]; it could have returned #{1 2}"),
    Bad(
        edn("0 invoke add 1", "0 ok add 1", *read(0, "#{1 2}")),
        "returned #{1 2}; it could have returned #{1}",
        ("--model", "set"),
    ),
    Bad(edn(*wrote(0, "#{1 1}")), "HISTORY:1: duplicate element 1", status=2),
]


def keyed(process: int, kind: str, f: str, key: str, value: str) -> str:
    return f"{{:process {process}, :type :{kind}, :f :{f}, :key {key}, :value {value}}}\n"


def keys(written: str, asked: str) -> str:
    """A read of one key finds what was written to the other."""
    return (
        keyed(0, "invoke", "write", written, "1")
        + keyed(0, "ok", "write", written, "1")
        + keyed(0, "invoke", "read", asked, "nil")
        + keyed(0, "ok", "read", asked, "1")
    )


KEYS = [
    Bad(keys('"1"', "1"), "key 1: no order explains that operation 3"),
    Bad(keys("1", '"1"'), 'key "1": no order explains that operation 3'),
    Bad(keys(":a", '"a"'), "key a: no order explains that operation 3"),
    Bad(keys("1", "true"), "key true: no order explains that operation 3"),
    Bad(
        edn("0 invoke write [1 7]", "0 ok write [1 7]", '0 invoke read ["1" nil]', '0 ok read ["1" 7]'),
        'key "1": no order explains that operation 3',
    ),
]

JSON_READ = '{"process":1,"type":"invoke","f":"read","value":null}'
JSON_SEEN = '{"process":1,"type":"ok","f":"read","value":9}'
LINE = '{"id":1,"process":1,"f":"read","key":"k","value":null,"invoke_ns":1,"complete_ns":2,"outcome":"ok","result":9}'
JSON_NEMESIS = JSON_READ.replace("1", '"nemesis"')
NOTATIONS = [
    Bad("\ufeff" + edn(*read(0, "9")), "operation 1, read, returned 9"),
    Bad(f"\ufeff{LINE}\n", "operation 1, read, returned 9"),
    Bad(f"[{JSON_READ},\n {JSON_SEEN}]\n", "operation 1, read, returned 9"),
    Bad(f"{JSON_READ}\n{JSON_SEEN}\n", "operation 1, read, returned 9"),
    Bad(f"[\n{LINE}\n]", "operation 1, read, returned 9"),
    Bad(edn(*read(0, "9")).replace("\n", "\r\n"), "operation 1, read, returned 9"),
    Bad(f"[{JSON_READ},\r\n{JSON_SEEN}]\r\n", "operation 1, read, returned 9"),
    Bad(f"[{JSON_READ},\n{JSON_SEEN}", "HISTORY:2: the file ends inside [", status=2),
    Bad(f"[{JSON_READ}\n{JSON_SEEN}]", "HISTORY:2: expected ',' or ']', got '{'", status=2),
    Bad(f"[{JSON_READ}]\n7", "HISTORY:2: expected the end of the file, got '7'", status=2),
    Bad(f"[{JSON_READ},\n7]", "HISTORY:2: expected an object of process, type, f and value", status=2),
    Bad(f'{LINE}\n{{"id": 2,, }}\n', "HISTORY:2: not JSON: ", status=2),
    Bad(f'{JSON_READ}\n{{"process":1,"process":2}}\n', "HISTORY:2: not JSON: duplicate field 'process'", status=2),
    Bad(LINE.replace("9", "NaN"), "HISTORY:1: not JSON: NaN is not a number", status=2),
    Bad(LINE.replace("9", r'"\ud83d"'), "HISTORY:1: not JSON: half of a surrogate pair", status=2),
    Bad(LINE.replace("9", "[" * 100_000), "HISTORY:1: not JSON: nested too deep", status=2),
    Bad(f'{JSON_READ}\n{{"process":"c","type":"ok","f":"read"}}', "HISTORY:2: expected a number or nemesis", status=2),
    Bad(f"{LINE}\n{JSON_READ}\n", "HISTORY:2: field 'id' must be an integer, not missing", status=2),
]

NO_ORIGIN = [
    # Forty writes without an answer: no search comes to an end.
    Bad(edn(*(f"{n} invoke write {n}" for n in range(40)), *read(99, "77")), "operation 41, read, returned 77"),
    Bad(
        edn(*(f"{n} invoke write {n}" for n in range(40)), "99 invoke cas [77 1]", "99 ok cas [77 1]"),
        "operation 41, cas 77 to 1, returned true",
    ),
    Bad(
        edn(*read(99, "39"), *(f"{n} invoke write {n}" for n in range(40))),
        "operation 1, read, returned 39; it could have returned null",
    ),
    Bad(
        edn(*(f"{n} invoke append {n}" for n in range(40)), "99 invoke read nil", "99 ok read [3 3]"),
        "operation 41, read, returned [3, 3]",
        ("--model", "list"),
    ),
    Bad(
        edn(*(f"{n} invoke add {n}" for n in range(40)), "99 invoke read nil", "99 ok read #{77}"),
        "operation 41, read, returned #{77}",
        ("--model", "set"),
    ),
    Bad(
        edn(*(f"{n} invoke enqueue {n}" for n in range(40)), "99 invoke dequeue nil", "99 ok dequeue 77"),
        "operation 41, dequeue, returned 77",
        ("--model", "queue"),
    ),
    Bad(
        edn(*(f'{n} invoke append "{n};"' for n in range(40)), "99 invoke get nil", '99 ok get "3;x4;"'),
        'operation 41, get, returned "3;x4;"',
        ("--model", "kv"),
    ),
]

MODELS = [
    Bad(
        edn("0 invoke acquire nil", "0 ok acquire nil", "1 invoke acquire nil", "1 ok acquire nil"),
        "operation 3, acquire, succeeded",
        ("--model", "mutex"),
    ),
    Bad(edn("0 invoke release nil", "0 ok release nil"), "operation 1, release, succeeded", ("--model", "mutex")),
    Bad(
        edn(
            "0 invoke acquire nil",
            "0 info acquire nil",
            *(f"{n} {kind} acquire nil" for n in (1, 2) for kind in ("invoke", "ok")),
        ),
        "operation 5, acquire, succeeded",
        ("--model", "mutex"),
    ),
    Bad(
        edn(
            "0 invoke enqueue 1",
            "0 ok enqueue 1",
            "0 invoke enqueue 2",
            "0 ok enqueue 2",
            "1 invoke dequeue nil",
            "1 ok dequeue 2",
        ),
        "operation 5, dequeue, returned 2; it could have returned 1",
        ("--model", "queue"),
    ),
]


ALL = [*PROCESSES, *PAIRS, *COMPLETIONS, *FIRSTS, *TYPES, *SETS, *KEYS, *NOTATIONS, *NO_ORIGIN, *MODELS]


@pytest.mark.parametrize("bad", ALL)
def test_a_mistake_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], bad: Bad) -> None:
    status, said = judged(tmp_path, capsys, bad)
    assert bad.found in said
    assert status == bad.status
    assert status == 1 or said.count("\n") == 1


GOOD = [
    Bad(edn(*read(0, "0")), "valid", ("--initial", "0")),
    Bad(edn(*read(0, "#{2 1}")), "valid", ("--initial", "#{1 2}")),
    Bad(edn(*read(0, '{"a" 1}')), "valid", ("--initial", '{"a": 1}')),
    Bad(edn("0 invoke write nil", "0 ok write 5", *read(1, "5")), "1 with the value of their completion instead"),
    Bad(edn("0 invoke write 3", *read(1, "3")) + "{:process 0, :type :ok, :f :write}", "valid"),
    Bad(edn(*wrote(0, "#{1 #{2 3}}"), *read(0, "#{#{3 2} 1}")), "valid"),
    Bad(
        edn("0 invoke add 1", "0 ok add 1", "0 invoke add 2", "0 ok add 2", *read(0, "[2 1]")),
        "valid",
        ("--model", "set"),
    ),
    Bad(edn("0 invoke dequeue nil", "0 ok dequeue nil"), "valid", ("--model", "queue")),
    Bad(edn("0 invoke release 5", "0 ok release 6"), "valid", ("--model", "mutex", "--initial", "true")),
    Bad(keys(":a", ":a"), "valid"),
    Bad("\ufeff" + edn(*wrote(0, "1")).replace("\n", "\r\n"), "valid"),
    Bad(f"[{JSON_READ},\n {JSON_SEEN}]", "valid", ("--initial", "9")),
    Bad(LINE.replace("read", "get").replace(":9", ':"9"'), "valid", ("--model", "kv", "--initial", '"9"')),
    Bad(f"[\n{JSON_NEMESIS},{JSON_READ},{JSON_SEEN.replace('9', 'null')}\n]", "passed over 1 event of nemesis"),
]


@pytest.mark.parametrize("good", GOOD)
def test_what_is_right_is_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str], good: Bad) -> None:
    status, said = judged(tmp_path, capsys, good)
    assert status == 0
    assert good.found in said


def test_an_operation_that_failed_is_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.edn"
    path.write_text(edn(":nemesis info kill nil", "0 invoke write 1", "0 fail write 1", *read(0, "nil")))
    assert main(["check", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["read"] == {
        "events": 5,
        "operations": 2,
        "failed": 1,
        "changed_values": 0,
        "passed_over": {":nemesis": 1},
    }
