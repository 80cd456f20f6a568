"""What the docker runtime concludes without an engine: who is at fault for an end, what is labelled."""

from dataclasses import replace

import pytest

from upheaval.errors import UsageError
from upheaval.images.checks import trial_labels
from upheaval.runtimes.cluster_file import check
from upheaval.runtimes.docker.container_state import own_fault
from upheaval.runtimes.docker.labels import RUN_ID, is_abandoned
from upheaval.system import SYSTEM, ClusterSpec


@pytest.mark.parametrize(
    ("state", "fault"),
    [
        ({"Status": "running", "ExitCode": 0, "OOMKilled": False}, ""),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": False}, ""),
        ({"Status": "exited", "ExitCode": 5, "OOMKilled": False}, ""),
        ({"Status": "exited", "ExitCode": 1, "OOMKilled": False}, "ended with status 1"),
        ({"Status": "exited", "ExitCode": 137, "OOMKilled": True}, "was ended by the kernel: out of memory"),
    ],
)
def test_an_end_is_the_members_own_fault_unless_we_ended_it(state: dict[str, object], fault: str) -> None:
    assert own_fault(state, expected=(5,)) == fault


def test_a_trial_of_an_image_belongs_to_a_harness_like_any_run() -> None:
    labels = trial_labels("upheaval/node:1")
    assert labels[RUN_ID] != trial_labels("upheaval/node:1")[RUN_ID]
    assert not is_abandoned(labels)
    assert is_abandoned({**labels, "upheaval.harness-start": "1"})


def test_a_service_that_only_the_image_has_is_not_looked_for_here() -> None:
    spec = ClusterSpec(service="nowhere.at_all:Thing")
    check(replace(spec, image="theirs:1").made("run"), SYSTEM)
    with pytest.raises(UsageError, match="no module 'nowhere'"):
        check(spec.made("run"), SYSTEM)
