"""What becomes a release, and what the workflows of a release and of others run."""

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from check_release import problem_of
from support.stranger import ROOT

OF_EXAMPLES = sorted(ROOT.glob("examples/*/.github/workflows/*.yml"))
"""`upheaval init` copies these into repositories of others."""
WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), *OF_EXAMPLES, ROOT / "action.yml"]
PINNED = re.compile(r"[\w.-]+(?:/[\w.-]+)+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
CHANGELOG = "# Changelog\n\n## Unreleased\n\n## 1.2.0 - 2026-01-01\n\n### Added\n\n- A thing.\n\n## 1.1.0\n\n"


@pytest.mark.parametrize(
    ("tag", "version", "problem"),
    [
        ("v1.2.0", "1.2.0", None),
        ("v1.2.1", "1.2.0", "the tag is v1.2.1, and the package has version 1.2.0"),
        ("1.2.0", "1.2.0", "the tag is 1.2.0, "),
        ("v1.1.0", "1.1.0", "no section `## 1.1.0` with entries"),
        ("v1.2", "1.2", "no section `## 1.2` with entries"),
        ("v3.0.0", "3.0.0", "no section `## 3.0.0` with entries"),
    ],
)
def test_a_tag_is_released_when_version_and_changelog_agree(tag: str, version: str, problem: str | None) -> None:
    answer = problem_of(tag, version, CHANGELOG)
    assert (answer is None) is (problem is None)
    assert problem is None or problem in str(answer)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_action_is_pinned_by_its_digest(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert [action for action in used if not PINNED.fullmatch(action)] == []
    assert used


def jobs_of(path: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return jobs


@pytest.mark.parametrize("path", WORKFLOWS[:-1], ids=lambda path: str(path.relative_to(ROOT)))
def test_no_workflow_keeps_credentials_or_runs_without_a_limit(path: Path) -> None:
    jobs = jobs_of(path)
    assert [name for name, job in jobs.items() if "timeout-minutes" not in job] == []
    checkouts = [step for job in jobs.values() for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
    assert [step for step in checkouts if step["with"]["persist-credentials"] is not False] == []


@pytest.mark.parametrize("path", WORKFLOWS[:-1], ids=lambda path: str(path.relative_to(ROOT)))
def test_what_tests_of_root_left_is_made_readable_before_it_is_kept(path: Path, tmp_path: Path) -> None:
    for job in jobs_of(path).values():
        runs = [step.get("run", "") for step in job["steps"]]
        uploads = [step for step in job["steps"] if "/tmp/pytest-of" in str(step.get("with", {}).get("path"))]
        if not uploads or not any(run.startswith("sudo ") and " make " in run for run in runs):
            continue
        (opened,) = [step for step in job["steps"] if "chmod" in step.get("run", "")]
        assert job["steps"].index(opened) == job["steps"].index(uploads[0]) - 1
        assert opened["if"] == uploads[0]["if"]
        closed = tmp_path / "pytest-of-root" / "pytest-0"
        closed.mkdir(mode=0o700, parents=True)
        closed.parent.chmod(0o700)
        command = opened["run"].replace("sudo ", "").replace("/tmp/", f"{tmp_path}/")
        assert subprocess.run(["bash", "-ec", command], cwd=tmp_path, check=False).returncode == 0
        assert [folder.stat().st_mode & 0o777 for folder in (closed.parent, closed)] == [0o755, 0o755]
        closed.parent.rename(tmp_path / path.name)


@pytest.mark.parametrize("path", OF_EXAMPLES, ids=lambda path: path.parts[-4])
def test_a_workflow_of_an_example_may_only_read_and_needs_no_released_package(path: Path) -> None:
    """No index has the package before its first release: the workflow says where to install it from."""
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    (installs,) = [line for step in steps for line in step.splitlines() if "pip install" in line]
    (package,) = [word for word in shlex.split(installs) if "upheaval" in word]
    is_of_repository = re.fullmatch(r"upheaval(\[\w+\])? @ \$UPHEAVAL", package)
    assert is_of_repository or package.startswith("./upheaval")
    assert not is_of_repository or workflow["env"]["UPHEAVAL"].startswith("git+https://")


def pages_that_install() -> list[Path]:
    return [path for folder in ("docs", "examples") for path in sorted((ROOT / folder).rglob("*.md"))]


def test_no_page_installs_a_released_package() -> None:
    named = re.compile(r"pip install [^`\n]*?(?<![\w/])upheaval\b")
    assert [path for path in pages_that_install() if named.search(path.read_text(encoding="utf-8"))] == []


def test_artefacts_of_two_jobs_have_two_names() -> None:
    *_, upload = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    name = upload["with"]["name"]
    assert [part for part in ("inputs.python", "github.job", "strategy.job-index") if part not in name] == []


@pytest.mark.parametrize(
    ("extras", "requirements", "words"),
    [
        (("", ""), "", ["/some where"]),
        (("docker", ""), "numpy\n-r requirements.txt\n", ["/some where[docker]", "numpy", "-r", "requirements.txt"]),
        (("", "load"), "\"x; python_version<'3.13'\" y", ["/some where[load]", "x; python_version<'3.13'", "y"]),
        (("docker", "load"), "", ["/some where[docker,load]"]),
    ],
)
def test_the_action_installs_extras_and_requirements(
    tmp_path: Path, extras: tuple[str, str], requirements: str, words: list[str]
) -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    (install,) = [step["run"] for step in steps if "pip install" in step.get("run", "")]
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    python.chmod(0o755)
    settings = {"GITHUB_ACTION_PATH": "/some where", "REQUIREMENTS": requirements}
    settings |= dict(zip(("DOCKER", "LOAD"), extras, strict=True))
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", install],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **settings},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["-m", "pip", "install", "--quiet", *words]


@pytest.mark.parametrize(
    ("system", "images"),
    [
        ("", "node toxiproxy netfault"),
        ("upheaval", "node toxiproxy netfault"),
        ("aeron", "aeron netfault"),
        ("aeron:1.49.3", "aeron netfault --aeron-version 1.49.3"),
    ],
)
def test_the_action_builds_the_images_of_containers(tmp_path: Path, system: str, images: str) -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    (number,) = [number for number, step in enumerate(steps) if "images build" in step.get("run", "")]
    step = steps[number]
    assert (step["if"], step["env"]) == ("inputs.runtime == 'docker'", {"SYSTEM": "${{ inputs.system }}"})
    assert ("pip install" in steps[number - 1]["run"], steps[number + 1]["id"]) == (True, "run")
    command = tmp_path / "upheaval"
    command.write_text('#!/bin/sh\necho "$@"\n')
    command.chmod(0o755)
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "SYSTEM": system},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, f"images build {images}\n"), done.stderr


def test_only_publishing_may_write() -> None:
    jobs = jobs_of(ROOT / ".github" / "workflows" / "release.yml")
    assert {name for name, job in jobs.items() if "write" in str(job.get("permissions", ""))} == {"publish"}


OF_SCENARIO = {"SCENARIO": "leader-killed", "RUNTIME": "simulated", "SEED": "3"}
OF_PROJECT = dict.fromkeys(("SYSTEM", "SERVICE", "LOAD_USER", "MODEL", "SCHEMA"), "")
"""What the project chooses unless the step does."""


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, []),
        ({"SYSTEM": "aeron"}, ["--system", "aeron"]),
        (
            {"SERVICE": "a:B", "LOAD_USER": "a:C", "MODEL": "a:D", "SCHEMA": "a b.xml"},
            ["--service", "a:B", "--user", "a:C", "--model", "a:D", "--schema", "a b.xml"],
        ),
    ],
)
def test_the_action_runs_what_its_step_names_and_leaves_the_rest_to_the_project(
    tmp_path: Path, settings: dict[str, str], words: list[str]
) -> None:
    program = tmp_path / "upheaval"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    done = subprocess.run(
        [str(ROOT / ".github" / "run_scenario.sh")],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", **OF_SCENARIO, **OF_PROJECT, **settings, **files},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    command, scenario, runtime, simulated, seed, number, folder, _name, *others = done.stdout.splitlines()
    assert (command, scenario, runtime, simulated, seed, number, folder) == (
        *("run", "leader-killed", "--runtime", "simulated"),
        *("--seed", "3", "--dir"),
    )
    assert others == words


def test_each_input_of_the_action_reaches_its_script() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "run"]
    assert step["env"].keys() == {*OF_SCENARIO, *OF_PROJECT}
    wanted = {*action["inputs"]} - {"python", "requirements"}
    assert {value.split(".")[1].rstrip(" }") for value in step["env"].values()} == wanted
    assert [name for name in OF_PROJECT if name != "LOAD_USER" and action["inputs"][name.lower()]["default"]] == []


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("scenario", "system", "status", "verdict"),
    [("leader-isolated-blackhole", "", 0, "valid"), ("leader-killed", "aeron", 2, ""), ("no-such", "", 2, "")],
)
def test_the_action_gives_verdict_summary_page_and_status(
    tmp_path: Path, python: Path, scenario: str, system: str, status: int, verdict: str
) -> None:
    settings = {**OF_SCENARIO, **OF_PROJECT, "SCENARIO": scenario, "SYSTEM": system, "FORCE_COLOR": "1"}
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    # Another step of the job has left a folder, whose verdict is not that of this step.
    before = tmp_path / "-".join(filter(None, ("upheaval-run", scenario, "simulated-3", system)))
    before.mkdir()
    path = f"{python.parent}:/usr/bin:/bin"
    done = subprocess.run(
        [str(ROOT / ".github" / "run_scenario.sh")],
        cwd=tmp_path,
        env={"PATH": path, "HOME": str(tmp_path), **settings, **files},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == status, done.stdout + done.stderr
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == f"verdict={verdict}\nfolder={before.name}-2\n"
    summary = (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert verdict in summary
    assert "\x1b" not in summary
    assert (tmp_path / f"{before.name}-2" / "report.html").exists() is (status == 0)
    assert list(before.iterdir()) == []
