"""The protocol trace of a run as a table: what its file has, line by line, and bad lines as rejects."""

import json
from pathlib import Path
from typing import Any

from upheaval.execution.exact_run import run_exact
from upheaval.records import RunFolder
from upheaval.scenario import find_exact
from upheaval_pipeline import sources


def test_a_protocol_trace_is_a_table(tmp_path: Path, spark: Any) -> None:
    script = find_exact("follower-offline")
    assert script is not None
    run_exact(script, 1, tmp_path, lambda _: None)
    lines = {
        member: (path / "protocol.jsonl") for member in range(3) for path in [RunFolder(tmp_path).member(member).path]
    }
    expected = sum(len(path.read_text().splitlines()) for path in lines.values())
    with lines[2].open("a") as stream:
        stream.write('{"event":"send"}\n{"cut')
    sources.register(spark)
    table = sources.load(spark, "protocol", [tmp_path]).persist()
    assert table.where("_reject IS NULL").count() == expected
    (bad,) = table.where("_reject IS NOT NULL").collect()
    assert "protocol.jsonl" in bad["_reject"]
    assert bad["member"] == 2
    terms = table.where("event = 'send' AND message = 'NewLeadershipTerm'").orderBy("ts", "member", "n").collect()
    assert len(terms) == 22
    assert [json.loads(row["fields"])["logPosition"] for row in terms[-4:]] == [6496, 6496, 6496, 6592]
    assert {(row["member"], row["to"]) for row in terms[-4:]} == {(1, 0)}
    states = table.where("event = 'election_state' AND member = 0").count()
    assert states > 10
    table.unpersist()
