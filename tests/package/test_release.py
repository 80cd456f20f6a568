"""What becomes a release, and what the workflows of a release and of others run."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from check_release import problem_of
from support.stranger import ROOT

WORKFLOWS = [*sorted((ROOT / ".github" / "workflows").glob("*.yml")), ROOT / "action.yml"]
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


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_every_action_is_pinned_by_its_digest(path: Path) -> None:
    used = re.findall(r"uses: (.+)", path.read_text(encoding="utf-8"))
    assert [action for action in used if not PINNED.fullmatch(action)] == []
    assert used


def jobs_of(path: Path) -> dict[str, Any]:
    jobs: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    return jobs


@pytest.mark.parametrize("path", WORKFLOWS[:-1], ids=lambda path: path.stem)
def test_no_workflow_keeps_credentials_or_runs_without_a_limit(path: Path) -> None:
    jobs = jobs_of(path)
    assert [name for name, job in jobs.items() if "timeout-minutes" not in job] == []
    checkouts = [step for job in jobs.values() for step in job["steps"] if "actions/checkout" in step.get("uses", "")]
    assert [step for step in checkouts if step["with"]["persist-credentials"] is not False] == []


def test_only_publishing_may_write() -> None:
    jobs = jobs_of(ROOT / ".github" / "workflows" / "release.yml")
    assert {name for name, job in jobs.items() if "write" in str(job.get("permissions", ""))} == {"publish"}


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("scenario", "status", "verdict"), [("leader-isolated-blackhole", 0, "valid"), ("no-such", 2, "")]
)
def test_the_action_gives_verdict_summary_page_and_status(
    tmp_path: Path, python: Path, scenario: str, status: int, verdict: str
) -> None:
    settings = {"SCENARIO": scenario, "RUNTIME": "simulated", "SYSTEM": "upheaval", "SERVICE": "", "SEED": "3"}
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
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
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == f"verdict={verdict}\n"
    assert verdict in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert (tmp_path / "upheaval-run" / "report.html").exists() is (status == 0)
