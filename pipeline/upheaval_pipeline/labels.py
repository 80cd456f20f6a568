"""Labels: what a run tested, such as its commit and branch, by name."""

from collections.abc import Mapping, Sequence
from typing import Final

OF_CI: Final = {
    "commit": ("GITHUB_SHA", "CI_COMMIT_SHA", "GIT_COMMIT", "BUILDKITE_COMMIT", "CIRCLE_SHA1", "BUILD_SOURCEVERSION"),
    "branch": (
        "GITHUB_HEAD_REF",
        "GITHUB_REF_NAME",
        "CI_COMMIT_REF_NAME",
        "GIT_BRANCH",
        "BUILDKITE_BRANCH",
        "CIRCLE_BRANCH",
        "BUILD_SOURCEBRANCHNAME",
    ),
    "build": (
        "BUILD_TAG",
        "GITHUB_RUN_ID",
        "CI_PIPELINE_ID",
        "BUILDKITE_BUILD_NUMBER",
        "CIRCLE_BUILD_NUM",
        "BUILD_BUILDID",
    ),
}
"""By label the variables of GitHub, GitLab, Jenkins, Buildkite, CircleCI and Azure, the first one that is set."""


def labels_of(named: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> dict[str, str]:
    """Those of CI's own variables, and over them those of the command line."""
    values = {label: [environment[name] for name in names if environment.get(name)] for label, names in OF_CI.items()}
    return {label: some[0] for label, some in values.items() if some} | dict(named)
