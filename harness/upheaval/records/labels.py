"""Labels: what a run tested, such as its commit and branch, by name.

A run has them in `labels.json`, apart from the files that a seed reproduces and that a seal covers.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from upheaval.errors import UsageError
from upheaval.records import jsonfields
from upheaval.records.jsonfields import FieldError
from upheaval.records.run_folder import RunFolder, write_atomically
from upheaval.records.utf8 import storable

LABELS_FILE: Final = "labels.json"
TEST: Final = "test"
"""The label for the pytest test that made a run, without its parameters."""

OF_RUNS: Final = ("version", "service")
"""What a lake compares runs by beside their labels, from their manifests. No label has such a name."""
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
"""For each label, the variables of GitHub, GitLab, Jenkins, Buildkite, CircleCI and Azure; the first one set counts."""


def parse_label(text: str) -> tuple[str, str]:
    """The name and value of a label, from `NAME=VALUE`. Raises `UsageError` for anything else."""
    name, equals, value = text.partition("=")
    if not equals or not value or not name.isidentifier():
        raise UsageError(f"expected NAME=VALUE, such as commit=4f2a91c, got {text!r}")
    if name in OF_RUNS:
        raise UsageError(f"a run has a {name} of its own: give the label {name!r} another name, such as release")
    return name, value


def labels_of(named: Sequence[tuple[str, str]], environment: Mapping[str, str]) -> dict[str, str]:
    """The labels from CI's variables; the labels of the command line take precedence."""
    values = {label: [environment[name] for name in names if environment.get(name)] for label, names in OF_CI.items()}
    return {label: some[0] for label, some in values.items() if some} | dict(named)


@contextmanager
def labelled(run: Path, named: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Label the run that the block makes, however the block ends; do nothing if it began no run."""
    try:
        yield
    finally:
        if RunFolder(run).manifest_file.is_file():
            write_labels(run, labels_of(named, os.environ))


def write_labels(run: Path, labels: Mapping[str, str]) -> None:
    """Write `labels.json`, unless there are none. Raises `EnvironmentFault` when that is not possible."""
    if labels:
        # A variable may have bytes that are no UTF-8, which a reader would refuse.
        known = {name: storable(value) for name, value in labels.items()}
        write_atomically(run / LABELS_FILE, json.dumps(known, indent=2, sort_keys=True) + "\n")


def read_labels(run: Path) -> dict[str, str] | None:
    """The labels of a run; None without the file. Raises `UsageError` for a malformed file."""
    path = run / LABELS_FILE
    if not path.is_file():
        return None
    try:
        fields = jsonfields.parse_object(jsonfields.read_text(path))
        labels = {name: value for name, value in fields.items() if isinstance(value, str)}
        if len(labels) < len(fields):
            raise FieldError(f"expected a text for each label, got {fields}")
        return labels
    except FieldError as error:
        raise UsageError(f"{path}: {error}") from None


@dataclass(frozen=True, slots=True)
class LabelsOfIngest:
    """The labels given at ingest: `of_ci` applies to runs without labels of their own, `named` to all runs."""

    of_ci: Mapping[str, str] = field(default_factory=dict)
    named: Mapping[str, str] = field(default_factory=dict)

    def of(self, run: Path) -> dict[str, str]:
        """The labels of a run in the lake. Raises as `read_labels`."""
        recorded = read_labels(run)
        return {**(self.of_ci if recorded is None else recorded), **self.named}


NO_LABELS: Final = LabelsOfIngest()
