"""`upheaval check`: histories of others, judged from one file."""

import json
import sys
from pathlib import Path

import pytest

from support.lone_histories import register_history
from upheaval.cli.main import main
from upheaval.records import HistoryWriter

STALE = """\
{:process 0, :type :invoke, :f :write, :value 3, :time 100000}
{:process :nemesis, :type :info, :f :start, :value nil, :time 150000}
{:process 0, :type :ok, :f :write, :value 3, :time 200000}
{:process 1, :type :invoke, :f :write, :value 4, :time 300000}
{:process 2, :type :invoke, :f :read, :value nil, :time 400000}
{:process 1, :type :info, :f :write, :value 4, :error :timed-out, :time 500000}
{:process 2, :type :ok, :f :read, :value 4, :time 600000}
{:process 2, :type :invoke, :f :read, :value nil, :time 700000}
{:process 0, :type :invoke, :f :cas, :value [4 5], :time 750000}
{:process 0, :type :ok, :f :cas, :value [4 5], :time 770000}
{:process 2, :type :ok, :f :read, :value 3, :time 800000}
{:process 0, :type :invoke, :f :cas, :value [3 9], :time 900000}
{:process 0, :type :fail, :f :cas, :value [3 9], :time 950000}
"""
LINES = [
    "the shortest illegal prefix has 5 of 5 operations and ends with the answer of operation 7 (*)",
    "operation  process  from        to          order of events      call        returned  possible",
    "---------  -------  ----------  ----------  -------------------  ----------  --------  --------",
    "1          0        0.000000 s  0.000100 s  |-|                  write 3",
    "3          1        0.000200 s  -               |------------->  write 4     ?",
    "4          2        0.000300 s  0.000500 s        |-|            read        4         3",
    "7 *        2        0.000600 s  0.000700 s            |-----|    read        3         4 or 5",
    "8          0        0.000650 s  0.000670 s              |-|      cas 4 to 5  true",
]
DETAIL = "no order explains that operation 7, read, returned 3; it could have returned 4 or 5"


def check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, *options: str, name: str = "history.edn"
) -> tuple[int, str, str]:
    path = tmp_path / name
    path.write_text(text)
    status = main(["check", str(path), *options])
    out, err = capsys.readouterr()
    return status, out, err.replace(str(path), "HISTORY")


def test_an_illegal_history_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(tmp_path, capsys, STALE, "--model", "cas-register")
    assert status == 1
    assert out.splitlines()[: len(LINES)] == LINES
    assert out.splitlines()[-6:] == [
        "verdict: invalid, 1 broken",
        "",
        "invalid  linearizable [linearizable]",
        f"         {DETAIL}",
        "         operation 7",
        str(tmp_path / "history.edn"),
    ]


def test_json_has_the_findings_the_search_and_the_prefix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = check(tmp_path, capsys, f"[{STALE}]", "--json", "--limit", "500")
    assert status == 1
    found = json.loads(out)
    assert (found["verdict"], found["model"], found["limit"]) == ("invalid", "workbench", 500)
    assert found["promises"][0]["detail"] == DETAIL
    assert found["promises"][0]["operation"] == 7
    assert found["keys"] == [{"key": "", "verdict": "invalid", "operations": 5, "configurations": 4}]
    prefix = found["illegal_prefix"]
    assert (prefix["operation"], prefix["length"], prefix["total"], prefix["shortest"]) == (7, 5, 5, True)
    assert found["read"] == {
        "events": 13,
        "operations": 6,
        "failed": 1,
        "changed_values": 0,
        "passed_over": {":nemesis": 1},
    }
    assert all(each["all_possible_known"] for each in prefix["operations"])
    assert {each["id"]: each["possible"] for each in prefix["operations"]} == {1: [], 3: [], 4: [3], 7: [4, 5], 8: []}


def test_times_that_do_not_tell_events_apart_give_way_to_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the times alone the read would overlap the write that it misses."""
    text = """{:process 0, :type :invoke, :f :write, :value 3, :time 1}
        {:process 0, :type :ok, :f :write, :value 3, :time 2}
        {:process 1, :type :invoke, :f :read, :value nil, :time 2}
        {:process 1, :type :ok, :f :read, :value nil, :time 3}"""
    status, out, _ = check(tmp_path, capsys, text)
    assert status == 1
    assert "event 3" in out


def test_what_did_not_happen_and_what_may_have_say_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """{:process 0, :type :invoke, :f :write, :value 3}
        {:process 0, :type :fail, :f :write, :value 3}
        {:process 1, :type :invoke, :f :write, :value 4}
        {:process 1, :type :info, :f :write, :value :timed-out}
        {:process 2, :type :invoke, :f :read, :value nil}
        {:process 2, :type :ok, :f :read, :value %s}"""
    assert check(tmp_path, capsys, text % "nil")[0] == 0
    assert check(tmp_path, capsys, text % "4")[0] == 0
    assert check(tmp_path, capsys, text % "3")[0] == 1


@pytest.mark.parametrize(("seen", "status"), [("[1 5]", 0), ("[1 6]", 1), ("[1 nil]", 1)])
def test_keys_of_jepsen_independent(tmp_path: Path, capsys: pytest.CaptureFixture[str], seen: str, status: int) -> None:
    text = """{:process 0, :type :invoke, :f :write, :value [1 4]}
        {:process 0, :type :ok, :f :write, :value [1 4]}
        {:process 0, :type :invoke, :f :write, :value [2 6]}
        {:process 0, :type :ok, :f :write, :value [2 6]}
        {:process 0, :type :invoke, :f :cas, :value [1 [4 5]]}
        {:process 0, :type :ok, :f :cas, :value [1 [4 5]]}
        {:process 2, :type :invoke, :f :read, :value [1 nil]}
        {:process 2, :type :ok, :f :read, :value SEEN}"""
    found, out, _ = check(tmp_path, capsys, text.replace("SEEN", seen), "--model", "register")
    assert found == status
    assert ("key 1: " in out) == (status == 1)


KV = """{:process 0, :type :invoke, :f :append, :key "a", :value "x"}
{:process 0, :type :ok, :f :append, :key "a", :value "x"}
{:process 1, :type :invoke, :f :get, :key "b", :value nil}
{:process 1, :type :ok, :f :get, :key "b", :value EMPTY}
{:process 0, :type :invoke, :f :put, :key "a", :value "y"}
{:process 1, :type :invoke, :f :append, :key "a", :value "z"}
{:process 0, :type :ok, :f :put, :key "a", :value "y"}
{:process 1, :type :ok, :f :append, :key "a", :value "z"}
{:process 0, :type :invoke, :f :get, :key "a", :value nil}
{:process 0, :type :ok, :f :get, :key "a", :value "SEEN"}
"""


@pytest.mark.parametrize(("seen", "status"), [("yz", 0), ("y", 0), ("xyz", 1), ("xz", 1)])
@pytest.mark.parametrize("empty", ["nil", '""'])
def test_texts_are_put_and_appended_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seen: str, status: int, empty: str
) -> None:
    text = KV.replace("SEEN", seen).replace("EMPTY", empty)
    found, out, _ = check(tmp_path, capsys, text, "--model", "kv")
    assert found == status
    assert status == 0 or 'it could have returned "yz" or "y"' in out or '"y" or "yz"' in out


def test_lists_of_jepsen_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = """{:process 0, :type :invoke, :f :read, :value nil}
        {:process 0, :type :ok, :f :read, :value nil}
        {:process 0, :type :invoke, :f :append, :value 1}
        {:process 0, :type :ok, :f :append, :value 1}
        {:process 0, :type :invoke, :f :read, :value nil}
        {:process 0, :type :ok, :f :read, :value %s}"""
    assert check(tmp_path, capsys, text % "[1]", "--model", "list")[0] == 0
    assert check(tmp_path, capsys, text % "[]", "--model", "list")[0] == 1


def line(f: str, value: str, result: str, number: int = 1) -> str:
    return (
        f'{{"id":{number},"process":1,"f":"{f}","key":"k","value":{value},"invoke_ns":{number}0,'
        f'"complete_ns":{number}5,"outcome":"ok","result":{result},"position":null}}\n'
    )


def test_lines_of_our_own_history_are_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer:
        for operation in register_history(3, 100, is_valid=True):
            writer.add(operation)
    assert main(["check", str(path)]) == 0
    text = line("write", '"a"', "null", 1) + line("append", '"b"', "null", 2) + line("read", "null", '"ab"', 3)
    assert check(tmp_path, capsys, text, "--model", "kv", name="kv.jsonl")[0] == 0
    assert check(tmp_path, capsys, text, name="kv.jsonl")[0] == 1


@pytest.mark.parametrize(("answer", "status"), [('"x"', 0), ('"y"', 1)])
def test_an_echo_answers_what_it_was_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], answer: str, status: int
) -> None:
    text = line("append", "1", "null", 1) + line("echo", '"x"', answer, 2) + line("list", "null", "[1]", 3)
    assert check(tmp_path, capsys, text, name="history.jsonl")[0] == status


def test_a_search_that_gives_up_says_what_it_tried(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "history.jsonl"
    with HistoryWriter(path) as writer:
        for operation in register_history(0, 400, is_valid=True):
            writer.add(operation)
    assert main(["check", str(path), "--limit", "100", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["limit"]) == ("unknown", 100)
    assert found["keys"][0]["configurations"] == 101
    assert found["illegal_prefix"] is None
    assert found["promises"][0]["detail"].startswith("gave up after 100 configurations of ")


@pytest.mark.parametrize("text", ["", "[]", "{:process 0, :type :invoke, :f :read, :value nil}"])
def test_a_history_without_an_answer_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    status, out, _ = check(tmp_path, capsys, text)
    assert status == 3
    assert "no operation was answered" in out


READ = "{:process 0, :type :invoke, :f :read, :value nil}\n"
BAD = [
    ("{:process 0", "HISTORY:1: the file ends inside {"),
    (READ + "7", "HISTORY:2: expected a map of :process, :type, :f and :value"),
    ("{:type :ok}", "HISTORY:1: expected a number or :nemesis as :process, got none"),
    (READ.replace(":invoke", ":began"), "HISTORY:1: expected :invoke, :ok, :fail or :info as :type, got :began"),
    (
        READ.replace(":read", ":drain"),
        "HISTORY:1: unknown operation :drain of the model workbench: "
        "expected one of :read, :write, :cas, :append, :list, :echo",
    ),
    (READ + "\n" + READ, "HISTORY:3: process 0 has not completed its operation of line 1"),
    (READ.replace(":invoke", ":ok"), "HISTORY:1: process 0 has not invoked what completes here"),
    (
        READ + "{:process 0, :type :ok, :f :write, :value 1}",
        "HISTORY:2: expected the completion of read, got that of write",
    ),
    ("{:process 0, :type :invoke, :f :cas, :value 1}", "HISTORY:1: the value of a cas must be [expected, new]"),
    (
        "{:process 0, :type :invoke, :f :read, :value [1 nil]}\n{:process 0, :type :ok, :f :read, :value 1}",
        "HISTORY:2: expected [key value], got 1",
    ),
    (
        "{:process 0, :type :invoke, :f :read, :value [1 nil]}\n{:process 0, :type :ok, :f :read, :value [2 1]}",
        "HISTORY:2: expected the key 1, got 2",
    ),
    (
        "{:process 0, :type :invoke, :f :list, :value nil}\n{:process 0, :type :ok, :f :list, :value 5}",
        "HISTORY:2: expected a list as the result of list, got 5",
    ),
    ('{"id": 1}\n', "HISTORY:1: field 'process' must be an integer, not missing"),
    (line("write", "1", "null") * 2, "HISTORY:2: duplicate operation id 1"),
    (line("write", "1", "7"), "HISTORY:1: expected no result of write, got 7"),
    (line("cas", "[1,2]", "null"), "HISTORY:1: expected the result true or false of cas, got null"),
    (
        line("read", "null", "1") + line("balances", "null", "[]", 2),
        "HISTORY:2: unknown operation 'balances' of the model workbench: "
        "expected read or write or cas or append or list or echo",
    ),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_bad_input_is_one_line_with_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    status, out, err = check(tmp_path, capsys, text)
    assert (status, out) == (2, "")
    assert err == f"upheaval: {message}\n"


def test_a_text_is_appended_to_by_texts_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '{:process 0, :type :invoke, :f :append, :key "a", :value 1}'
    assert (
        check(tmp_path, capsys, text, "--model", "kv")[2] == "upheaval: HISTORY:1: expected a text to append, got 1\n"
    )


def test_a_folder_is_no_history(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path)]) == 2
    assert "is a folder: expected the file of a history" in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["0", "-1", "many"])
def test_a_limit_is_above_zero(limit: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["check", "x", f"--limit={limit}"])
    assert "expected a number above 0" in capsys.readouterr().err


COUNTERS = '''
import json
import sys
from upheaval import Model

class Counters(Model):
    """Adds what it is told to a counter, and answers the sum."""
    def __init__(self):
        self.sum = 0
    @staticmethod
    def partition(request):
        return request.json()["name"]
    def apply(self, request):
        self.sum += request.json()["add"]
        return self.sum

class Raising(Counters):
    def apply(self, request):
        raise KeyError("nothing is known")

class Shared(Counters):
    seen = []
    def apply(self, request):
        self.seen.append(request.text)
        return len(self.seen)

class Rebound(Counters):
    count = 0
    def apply(self, request):
        type(self).count += 1
        return self.count

COUNT = []

class Global(Counters):
    def apply(self, request):
        COUNT.append(1)
        return len(COUNT)

class Register:
    value = 0

class Module(Counters):
    def apply(self, request):
        value, Register.value = Register.value, request.json()["add"]
        return value

class Inner(Counters):
    class State:
        count = 0
    def apply(self, request):
        self.State.count += 1
        return self.State.count

class Caller:
    def __init__(self):
        self.count = 0
    def __call__(self):
        self.count += 1
        return self.count

class Called(Counters):
    ask = Caller()
    def apply(self, request):
        return self.ask()

class Unpicklable:
    def __init__(self):
        self.count, self.never = 0, lambda: None

class Hidden(Counters):
    held = Unpicklable()
    def apply(self, request):
        self.held.count += 1
        return self.held.count

class Remembering(Counters):
    cache = {}
    def apply(self, request):
        REMEMBERED.add(request.text)
        self.cache[request.text] = request.json()
        return Sum(super().apply(request))
    def agrees(self, request, expected, answer):
        return float(answer) == expected.number

class Sum:
    def __init__(self, number):
        self.number = number

REMEMBERED = set()

class Talking(Counters):
    def apply(self, request):
        print("adding", request.text)
        return super().apply(request)

class Paired(Counters):
    def apply(self, request):
        return {(1, 2): super().apply(request)}
    def agrees(self, request, expected, answer):
        return answer == str(expected[1, 2]).encode()

class Binary(Counters):
    def apply(self, request):
        return str(super().apply(request)).encode()
'''


def add(number: int, name: str, value: int, answer: str | None, begin: int, end: int) -> str:
    completion = "null" if answer is None else f"{end}"
    asked = json.dumps(json.dumps({"name": name, "add": value}))
    return (
        f'{{"id":{number},"process":{number},"f":"call","key":"add","value":{asked},"invoke_ns":{begin},'
        f'"complete_ns":{completion},"outcome":"{"unknown" if answer is None else "ok"}","result":{json.dumps(answer)},'
        '"position":null}\n'
    )


@pytest.fixture
def counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the model `counters:Counters`, for the test alone."""
    (tmp_path / "counters.py").write_text(COUNTERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "counters", raising=False)


@pytest.mark.parametrize("model", ["Counters", "Binary"])
@pytest.mark.parametrize(("last", "status"), [("7", 0), ("3", 0), ("4", 1), ("6", 1)])
def test_a_model_of_ones_own_is_searched_for_an_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counters: None, model: str, last: str, status: int
) -> None:
    """Of `a`: 1 and then 2, while 4 had no answer and may have been added or not."""
    text = (
        add(1, "a", 1, "1", 10, 20)
        + add(2, "b", 5, "5", 11, 21)
        + add(3, "a", 4, None, 22, 0)
        + add(4, "a", 2, last, 30, 40)
    )
    found, out, _ = check(tmp_path, capsys, text, "--model", f"counters:{model}", name="history.jsonl")
    assert found == status
    if status:
        assert "key a: " in out
        assert f'{{"name": "a", "add": 2}}, returned "{last}"; it could have returned' in out
    else:
        assert "an order was found for each of 2 keys" in out


def test_what_a_model_of_ones_own_raises_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counters: None
) -> None:
    text = add(1, "a", 1, "1", 10, 20)
    status, out, _ = check(tmp_path, capsys, text, "--model", "counters:Raising", name="history.jsonl")
    assert status == 3
    assert "the model counters:Raising raised KeyError: 'nothing is known'" in out
    assert "in apply), at operation 1" in out


@pytest.mark.parametrize(
    ("model", "what"),
    [
        ("Shared", "changed Shared.seen"),
        ("Rebound", "changed Rebound.count"),
        ("Global", "changed counters.COUNT"),
        ("Module", "changed Register.value"),
        ("Inner", "changed Inner.State.count"),
        ("Called", "changed Called.ask"),
        ("Hidden", "has state outside of the instance"),
    ],
)
def test_a_model_that_keeps_state_outside_of_its_instance_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counters: None, model: str, what: str
) -> None:
    """Both calls were open at once: an order explains the answers, but each try changes what is shared."""
    text = add(1, "a", 1, "2", 10, 20) + add(2, "a", 1, "1", 11, 21)
    status, out, _ = check(tmp_path, capsys, text, "--model", f"counters:{model}", name="history.jsonl")
    assert status == 3
    why = f"the model counters:{model} {what}, which all instances share: set it in __init__"
    assert why in " ".join(out.split())


@pytest.mark.parametrize(("last", "verdict"), [("3", "valid"), ("4", "invalid")])
def test_a_model_that_only_remembers_in_its_class_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counters: None, last: str, verdict: str
) -> None:
    text = add(1, "a", 1, "1", 10, 20) + add(2, "a", 2, last, 30, 40)
    _, out, _ = check(tmp_path, capsys, text, "--model", "counters:Remembering", "--json", name="history.jsonl")
    assert json.loads(out)["verdict"] == verdict


@pytest.mark.parametrize("model", ["Talking", "Paired"])
def test_what_a_model_of_ones_own_prints_or_expects_disturbs_no_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counters: None, model: str
) -> None:
    text = add(1, "a", 1, "1", 10, 20)
    status, out, err = check(tmp_path, capsys, text, "--model", f"counters:{model}", "--json", name="history.jsonl")
    assert (status, json.loads(out)["verdict"]) == (0, "valid"), out
    assert ("adding" in err) is (model == "Talking")


@pytest.mark.parametrize(
    ("model", "text", "message"),
    [
        ("counters:Counter", "", "module counters has no class 'Counter'; did you mean 'Counters'?"),
        ("nosuch:Counters", "", "No module named 'nosuch'"),
        (
            "registr",
            "",
            "expected workbench, register, cas-register, list, kv, mutex, set, queue or module:Class",
        ),
        ("counters:Counters", add(1, "a", 1, "1", 10, 20).replace('"call"', '"read"'), "expected call"),
        ("counters:Counters", line("call", f'"{"0a" * 32}"', '"1"'), "expected what was asked, got its digest"),
        ("counters:Counters", line("call", '"{}"', "null"), "expected a text as the answer, got null"),
    ],
)
def test_what_a_model_of_ones_own_cannot_judge_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], counters: None, model: str, text: str, message: str
) -> None:
    status, out, err = check(tmp_path, capsys, text or READ, "--model", model, name="history.jsonl")
    assert (status, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
