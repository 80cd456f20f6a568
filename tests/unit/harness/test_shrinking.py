"""The search for the simplest plan that fails alike, on plans whose failures are known."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from upheaval.campaign.fingerprint import Fingerprint
from upheaval.campaign.shrink import RUNS_MAX, Budget, Shrinking
from upheaval.campaign.tape import Fields, Span, TapeReader
from upheaval.campaign.tries import Try, TryLog
from upheaval.errors import UsageError
from upheaval.records import Json

LOST = Fingerprint("invalid", "acknowledged-not-lost", role="LEADER")
LOST_BY_FOLLOWER = Fingerprint("invalid", "acknowledged-not-lost", role="FOLLOWER")
TOO_LITTLE = Fingerprint("unknown", "enough-traffic")
DRAWN: Fields = {"members": 5, "rate": 20, "fault": [{"kind": kind, "at": 70} for kind in ("cut", "kill", "jump")] * 3}


def read(fields: Fields) -> Span:
    reader = TapeReader(fields)
    reader.one_of("members", (3, 5))
    reader.number("rate", 1, 100)
    for fault in reader.spans("fault"):
        fault.one_of("kind", ("pause", "kill", "cut", "jump"))
        fault.number("at", 0, 100)
    return reader.read


def kinds(fields: Fields) -> list[Json]:
    faults = fields.get("fault", [])
    assert isinstance(faults, list)
    return [fault["kind"] for fault in faults if isinstance(fault, dict)]


def shows(fields: Fields) -> tuple[Fingerprint, ...]:
    """A leader loses with two kills and a rate of 7, a follower with a jump; with nothing there is too little."""
    found = [LOST] if kinds(fields).count("kill") >= 2 and int(str(fields["rate"])) >= 7 else []
    found += [LOST_BY_FOLLOWER] if "jump" in kinds(fields) else []
    return tuple(found) or (() if kinds(fields) else (TOO_LITTLE,))


@dataclass
class Plans:
    """Runs plans, and ends in the middle of a batch when it was asked to."""

    ends_after: int = 10**6
    ran: list[Fields] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def run(self, tapes: Sequence[Fields]) -> Iterator[Try]:
        self.batches.append(len(tapes))
        for tape in tapes:
            if len(self.ran) >= self.ends_after:
                raise KeyboardInterrupt
            self.ran.append(tape)
            yield Try(shows(tape), 1500, 40)


def search(
    file: Path, plans: Plans, budget: Budget | None = None, jobs: int = 1, say: Callable[[str], None] = lambda _: None
) -> Shrinking:
    tape = read(DRAWN)
    log = TryLog(file, {"tape": tape.to_fields()})
    return Shrinking(tape, LOST, Try(shows(DRAWN)), read, plans.run, log, budget or Budget(), jobs, say=say)


def test_the_simplest_plan_that_fails_alike_is_left(tmp_path: Path) -> None:
    lines: list[str] = []
    done = search(tmp_path / "tries.jsonl", Plans(), say=lines.append)
    best = done.shrink().to_fields()
    assert best == {"members": 3, "rate": 7, "fault": [{"kind": "kill", "at": 0}] * 2}
    assert done.shown == Try((LOST,), 1500, 40)
    assert not done.is_over
    match = re.fullmatch(
        rf"(\d+) of at most {RUNS_MAX} runs: 2 spans and 3 choices fail alike; up to (\d+) s more", lines[-1]
    )
    assert match is not None
    assert 1 < int(match[1]) <= done.log.runs
    assert int(match[2]) <= 60, "each run took less than 0.2 s"


def test_another_failure_is_a_finding_of_its_own_and_is_never_taken(tmp_path: Path) -> None:
    done = search(tmp_path / "tries.jsonl", Plans())
    assert LOST_BY_FOLLOWER not in shows(done.shrink().to_fields())
    others = done.log.others(LOST)
    assert list(others) == [LOST_BY_FOLLOWER], "what is merely unknown is no finding"
    assert LOST_BY_FOLLOWER in shows(others[LOST_BY_FOLLOWER])


def test_nothing_is_run_twice_and_a_search_that_was_ended_goes_on(tmp_path: Path) -> None:
    whole = Plans()
    best = search(tmp_path / "whole.jsonl", whole).shrink()
    assert len({str(tape) for tape in whole.ran}) == len(whole.ran)
    half = len(whole.ran) // 2
    first, second, file = Plans(ends_after=half), Plans(), tmp_path / "tries.jsonl"
    with pytest.raises(KeyboardInterrupt):
        search(file, first).shrink()
    with file.open("a") as stream:
        stream.write('{"tape": {"members"')
    assert search(file, second).shrink() == best
    assert first.ran + second.ran == whole.ran
    assert file.read_text() == (tmp_path / "whole.jsonl").read_text()


def test_several_at_a_time_come_to_the_same(tmp_path: Path) -> None:
    one, several = Plans(), Plans()
    assert search(tmp_path / "1", one).shrink() == search(tmp_path / "4", several, jobs=4).shrink()
    assert (set(one.batches), max(several.batches)) == ({1}, 4)


@pytest.mark.parametrize("jobs", [1, 3])
def test_a_budget_ends_the_search_and_a_larger_one_goes_on(tmp_path: Path, jobs: int) -> None:
    file, plans = tmp_path / "tries.jsonl", Plans()
    short = search(file, plans, Budget(runs=6), jobs)
    short.shrink()
    assert short.is_over
    assert 0 < len(plans.ran) <= 6
    assert LOST in shows(short.best.to_fields())
    assert search(file, plans, jobs=jobs).shrink() == search(tmp_path / "whole", Plans()).shrink()
    spent = search(tmp_path / "none", plans, Budget(seconds=-1))
    assert (spent.shrink(), spent.is_over) == (read(DRAWN), True)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"tape": {}, "fingerprints": 3}', "tries.jsonl:2: field 'fingerprints'"),
        ('{"fingerprints": []}', "tries.jsonl:2: field 'tape' must be an object"),
        ("tape", "tries.jsonl:2: not JSON"),
    ],
)
def test_a_file_of_tries_that_is_wrong_is_refused(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "tries.jsonl"
    search(file, Plans())
    with file.open("a") as stream:
        stream.write(f"{line}\n")
    with pytest.raises(UsageError, match=why):
        search(file, Plans())
    file.write_text('{"tape": {}}\n')
    with pytest.raises(UsageError, match="another search"):
        search(file, Plans())
