"""Every bad run is found, by the promise that it breaks and with a message that says where."""

from pathlib import Path

import pytest

from support.bad_runs import BAD_RUNS, BadRun, copy_of_good_run
from upheaval.checkers.run import verify_run


@pytest.mark.parametrize("bad", BAD_RUNS, ids=lambda bad: bad.name)
def test_it_is_found(bad: BadRun, tmp_path: Path) -> None:
    copy_of_good_run(bad.scenario, tmp_path)
    bad.damage(tmp_path)
    report = verify_run(tmp_path)
    finding = report.finding(bad.promise)
    assert finding.verdict is bad.verdict, report.findings
    assert [word for word in bad.says if word not in finding.detail] == [], finding.detail
