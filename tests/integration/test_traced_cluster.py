"""A cluster of processes that writes its protocol down: `up --trace`, and what `trace` shows of it."""

from pathlib import Path

import pytest

from support.live_clusters import end_without_trace
from upheaval.cli.main import main
from upheaval.runtimes.process import ProcessCluster


@pytest.mark.parametrize("components", [pytest.param("together", marks=pytest.mark.nightly), "split"])
def test_a_cluster_that_was_asked_to_writes_every_message_down(
    tmp_path: Path, components: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main(["up", "--dir", str(folder), "--trace", "--components", components]) == 0
    try:
        for value in range(3):
            client = ["client", "--dir", str(folder), "--timeout", "20", "register", "write", "k", str(value)]
            assert main(client) == 0
    finally:
        end_without_trace(ProcessCluster.open(folder))
    capsys.readouterr()
    names = sorted(path.name for path in (folder / "member-0").glob("protocol*"))
    processes = ["-archive", "-consensus", "-service-0"] if components == "split" else [""]
    assert names == [f"protocol{each}.jsonl" for each in processes]
    assert main(["trace", str(folder), "--message", "NewLeadershipTerm", "--notation", "columns"]) == 0
    announced = capsys.readouterr().out.splitlines()
    assert announced
    assert all("payload: logLeadershipTermId=" in line and line.endswith(("TRUE", "FALSE")) for line in announced)
    assert main(["trace", str(folder), "--message", "SessionMessageHeader"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert sum("consensus  send" in line and "(log)" in line for line in shown) == 3
    assert sum("service-0  receive" in line and "(log)" in line for line in shown) == 9
    assert sum("service-0  send" in line and "(egress)" in line for line in shown) == 3


def test_a_cluster_without_a_trace_is_not_given_one_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    assert main(["up", "--dir", str(folder), "--members", "1"]) == 0
    end_without_trace(ProcessCluster.open(folder))
    assert main(["up", "--dir", str(folder), "--trace"]) == 2
    assert "without --trace" in capsys.readouterr().err
    assert list((folder / "member-0").glob("protocol*")) == []
