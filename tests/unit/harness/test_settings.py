"""What a project sets for all commands, and which run a command is about that names none."""

import json
import os
from argparse import ArgumentParser
from dataclasses import replace
from pathlib import Path

import pytest

from support.built_runs import good_run
from upheaval.cli.fault_commands import CampaignOptions
from upheaval.cli.main import main
from upheaval.cli.settings import Settings, read_settings
from upheaval.errors import UsageError
from upheaval.runtime_names import LIVE_RUNTIMES
from upheaval_chaos.options import parse

TABLE = """
[tool.upheaval]
runtime = "process"
system = "aeron"
members = 5
service = "bank.service:Bank"
user = "bank.users:Teller"
schema = "protocol.xml"
runs = "var/runs"
"""
ALL = Settings("process", "aeron", 5, "bank.service:Bank", "bank.users:Teller")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose runs go to `var/runs`; the current folder is one below it."""
    (tmp_path / "pyproject.toml").write_text('[tool.upheaval]\nruns = "var/runs"\n')
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "pyproject.toml").write_text('[project]\nname = "without-the-table"\n')
    for name in [name for name in os.environ if name.startswith("UPHEAVAL_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


def test_the_table_of_the_nearest_file_that_has_one(project: Path) -> None:
    (project / "pyproject.toml").write_text(TABLE)
    assert read_settings({}, project / "below") == replace(
        ALL, schema=project / "protocol.xml", runs=project / "var" / "runs"
    )
    assert read_settings({}, Path("/")) == Settings()


def test_the_environment_comes_before_the_table(project: Path) -> None:
    (project / "pyproject.toml").write_text(TABLE)
    settings = read_settings({"UPHEAVAL_MEMBERS": "1", "UPHEAVAL_RUNS": "here", "UPHEAVAL_SYSTEM": ""}, project)
    assert (settings.members, settings.runs, settings.system) == (1, Path("here"), "aeron")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('runtme = "process"', "unknown key 'runtme': use runtime, system, .*; did you mean 'runtime'\\?"),
        ('runtime = "proces"', "runtime: unknown runtime 'proces': use .*; did you mean 'process'\\?"),
        ("members = 10", "members: expected a number from 1 to 9, got 10"),
        ("members = true", "members: expected a number from 1 to 9, got True"),
        ('members = "3"', "members: expected a number from 1 to 9, got '3'"),
        ("system = 1", "system: expected a text, got 1"),
        ("runs =", "cannot be read: "),
    ],
)
def test_what_makes_no_sense_is_one_line(
    project: Path, capsys: pytest.CaptureFixture[str], text: str, why: str
) -> None:
    path = project / "pyproject.toml"
    path.write_text(f"[tool.upheaval]\n{text}\n")
    with pytest.raises(UsageError, match=why):
        read_settings({}, project)
    assert main(["run", "leader-killed"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), str(path) in err) == ("", 1, True)


def test_a_variable_that_makes_no_sense_is_named() -> None:
    with pytest.raises(UsageError, match="UPHEAVAL_MEMBERS: expected a number from 1 to 9, got 'many'"):
        read_settings({"UPHEAVAL_MEMBERS": "many"}, Path("/"))


def options(service: str | None = None, user: str | None = None, system: str | None = None) -> CampaignOptions:
    """As the command line gives them."""
    named = replace(parse(ArgumentParser(), CampaignOptions, []), labels=())
    return replace(named, service=service, user=user, system=system)


def test_options_come_before_what_a_project_sets() -> None:
    assert ALL.completed(options()) == options("bank.service:Bank", "bank.users:Teller", "aeron")
    assert ALL.completed(options(system="upheaval")).system == "upheaval"
    # The users of one service are not those of another.
    assert ALL.completed(options(service="ledger")) == options("ledger", None, "aeron")
    # Named again, it is the same service.
    assert ALL.completed(options("bank.service:Bank")) == options("bank.service:Bank", "bank.users:Teller", "aeron")
    with_schema = replace(ALL, schema=Path("/bank/protocol.xml"))
    assert with_schema.completed(options()).schema == "/bank/protocol.xml"
    assert with_schema.completed(options(service="orders:Book")).schema is None
    assert Settings(runtime="simulated").runtime_among(LIVE_RUNTIMES) is None


@pytest.mark.parametrize(
    ("wanted", "jvm"), [(None, "-Xmx1g"), ("aeron", "-Xmx1g"), ("aeron:1.50.1", "-Xmx1g"), ("upheaval", None)]
)
def test_how_members_start_belongs_to_the_system_of_the_project(wanted: str | None, jvm: str | None) -> None:
    project = replace(ALL, launcher="java Main", jvm="-Xmx1g")
    completed = project.completed(options(system=wanted))
    assert (completed.launcher, completed.jvm) == (jvm and "java Main", jvm)


def test_a_new_run_goes_where_the_project_has_its_runs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "leader-killed", "--runtime", "simulated"]) == 0
    (folder,) = (project / "var" / "runs").iterdir()
    assert capsys.readouterr().out.splitlines()[-1] == str(folder)


def made_at(folder: Path, seconds: int) -> None:
    good_run(20).write(folder)
    os.utime(folder / "manifest.json", (seconds, seconds))


@pytest.mark.parametrize("command", ["verify", "measure", "report", "elections", "trace", "logs", "export"])
def test_a_run_that_is_not_named_is_the_newest(project: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    runs = project / "var" / "runs"
    for seconds, name in enumerate(("old", "campaign-1/seed-7", "older"), 1_000_000_000):
        made_at(runs / name, seconds if name != "campaign-1/seed-7" else 2_000_000_000)
    main([command, *(["--format", "knossos"] if command == "export" else [])])
    assert f"the newest run: {runs / 'campaign-1' / 'seed-7'}\n" in capsys.readouterr().err


def test_the_newest_run_is_the_one_that_is_judged(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = project / "var" / "runs"
    made_at(runs / "new", 2_000_000_000)
    made_at(runs / "old", 1_000_000_000)
    assert main(["verify", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["run"] == str(runs / "new")


def test_no_run_at_all_is_one_line(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs"]) == 2
    assert capsys.readouterr().err == f"upheaval: the folder {project / 'var' / 'runs'} has no run: name a run folder\n"
    assert main(["replay"]) == 2


def test_a_number_alone_is_an_election_of_the_newest_run(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made_at(project / "var" / "runs" / "new", 2_000_000_000)
    assert main(["elections", "99"]) == 2
    assert "unknown election 99: this run has " in capsys.readouterr().err
