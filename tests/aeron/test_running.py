"""Aeron's tools on members that run: counters, descriptors, who is alive."""

import re

from support.aeron_tools import fields_of

from .conftest import Members


def test_aeron_stat_shows_the_counters_of_a_running_member(members: Members) -> None:
    told = members.statistics
    assert told.status == 0, told.text
    values = {label: int(value) for value, label in re.findall(r" *\d+: +([\d,-]+) - (.*)", told.text.replace(",", ""))}
    expected = {
        "Consensus Module state - clusterId=0": 1,
        "Cluster node role - clusterId=0": 2,
        "Cluster control toggle - clusterId=0": 1,
        "Cluster snapshot count - clusterId=0": 1,
        "Cluster election state - clusterId=0": 17,
        "Cluster Errors - clusterId=0": 0,
        "Cluster Container Errors - clusterId=0 serviceId=0": 0,
        f"Archive Errors - archiveId={members.leader}": 0,
        f"Archive Recording Sessions - archiveId={members.leader}": 1,
    }
    assert {label: values.get(label) for label in expected} == expected
    sessions = [label for label in values if label.startswith("control-session: name=")]
    assert len(sessions) == values[f"Archive Control Sessions - archiveId={members.leader}"] > 0
    position = next(value for label, value in values.items() if label.startswith("rec-pos: 0 "))
    assert position >= values["Cluster commit-pos: - clusterId=0"] > 1 << 20


def test_archive_tool_describes_a_recording_in_progress(members: Members) -> None:
    told = members.live_description
    assert told.status == 0, told.text
    log = fields_of(told.text, "RecordingDescriptor")[0]
    assert (log["recordingId"], log["stopPosition"], log["streamId"]) == ("0", "-1", "100")
    mark = fields_of(told.text, "MarkFileHeader")[0]
    assert mark["archiveId"] == str(members.leader)
    assert mark["aeronDirectory"] == str(members.folder(members.leader) / "aeron")
