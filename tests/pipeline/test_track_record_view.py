"""The track record as a view of a lake: runs of known bugs' scenarios, by version. Without files, lakes and Spark."""

from dataclasses import replace

from support.run_rows import RunRows, answer_to, bad
from upheaval.execution.known_bugs import KNOWN_BUGS
from upheaval_pipeline.known_bug_rows import known_bug_rows

BUG = KNOWN_BUGS[0]


def test_runs_of_a_known_bug_are_counted_by_version() -> None:
    title = BUG.scenario(BUG.bad).title
    having, without = (f"aeron:{version}" for version in BUG.versions[:2])
    known = replace(bad(BUG.promise), known_issue=int(BUG.issue))
    found = [RunRows(f"bad-{n}", findings=[known], scenario=title, system=having) for n in range(2)]
    runs = [
        *found,
        RunRows("by another cause", findings=[bad(BUG.promise)], scenario=title, system=having),
        RunRows("by another bug", findings=[replace(known, known_issue=1601)], scenario=title, system=having),
        RunRows("missed", scenario=title, system=having),
        RunRows("good", scenario=title, system=without),
        RunRows("another version", scenario=title, system="aeron:0.1"),
        RunRows("another scenario", findings=[bad(BUG.promise)], system=having),
    ]
    rows = answer_to("track_record", runs)
    assert {row["promise"] for row in rows} == {str(BUG.promise)}
    assert {
        (row["issue"], row["version"], row["has_it"]): (row["runs"], row["found"], row["valid"]) for row in rows
    } == {
        (str(BUG.issue), BUG.bad, True): (5, 2, 1),
        (str(BUG.issue), BUG.versions[1], False): (1, 0, 1),
    }


def test_a_bug_without_an_issue_is_counted_by_its_commit() -> None:
    bug = next(bug for bug in KNOWN_BUGS if bug.issue == "a5d5072d5f")
    known = replace(bad(bug.promise), known_cause="Aeron before commit a5d5072d5f")
    run = RunRows("run", findings=[known], scenario=bug.scenario(bug.bad).title, system=f"aeron:{bug.bad}")
    assert [(row["issue"], row["found"]) for row in answer_to("track_record", [run])] == [(bug.issue, 1)]


def test_titles_tell_the_scenarios_apart() -> None:
    titles = {(issue, title) for issue, _, _, _, title in known_bug_rows()}
    assert len(titles) == len({title for _, title in titles}) == len(KNOWN_BUGS)
