"""The mark files of a member: what they say, that they are kept young, and that none locks a folder for ever."""

from dataclasses import replace

import pytest

from support.memory_storage import MemoryStorage
from upheaval_node.files import layout
from upheaval_node.files.mark_file import (
    VERSION_FAILED,
    ArchiveMarkHeader,
    ClusterMarkHeader,
    read_mark_file,
)
from upheaval_node.marks import ACTIVITY_INTERVAL_NS, MarkKeeper, MarkMaker
from upheaval_node.member_config import MemberConfig
from upheaval_node.protocol.cluster_mark_messages import ClusterComponentType
from upheaval_node.types import Now

CONFIG = MemberConfig(member_id=2, members="2,h:1,h:2,h:3,h:4,h:5", folder="x")


def keeper(storage: MemoryStorage, now_ms: int) -> MarkKeeper:
    make = MarkMaker(storage, CONFIG.folder, cluster_id=0, pid=11, now_ms=now_ms)
    archive = make.archive(CONFIG.member_id, CONFIG.endpoints.archive)
    return MarkKeeper([make.module(CONFIG), archive, make.service(0, CONFIG.member_id)])


def activities(storage: MemoryStorage) -> list[int]:
    return [
        read_mark_file(storage, layout.ARCHIVE_MARK, ArchiveMarkHeader).header.activity_timestamp,
        read_mark_file(storage, layout.CLUSTER_MARK, ClusterMarkHeader).header.activity_timestamp,
        read_mark_file(storage, layout.service_mark(0), ClusterMarkHeader).header.activity_timestamp,
    ]


def test_each_component_says_who_it_is() -> None:
    storage = MemoryStorage()
    keeper(storage, 1000).signal_ready(1001)
    archive = read_mark_file(storage, layout.ARCHIVE_MARK, ArchiveMarkHeader).header
    module = read_mark_file(storage, layout.CLUSTER_MARK, ClusterMarkHeader).header
    service = read_mark_file(storage, layout.service_mark(0), ClusterMarkHeader).header
    assert (archive.pid, archive.archive_id, archive.control_channel) == (11, 2, "aeron:tcp?endpoint=h:5")
    assert (module.component_type, module.member_id, module.service_id) == (
        ClusterComponentType.CONSENSUS_MODULE,
        2,
        -1,
    )
    assert (service.component_type, service.service_id, service.service_name) == (
        ClusterComponentType.CONTAINER,
        0,
        "clustered-service-0-0",
    )
    assert activities(storage) == [1001] * 3


@pytest.mark.parity("CX-14")
@pytest.mark.parametrize(("setting", "name"), [("", "default"), ("package.module:Class", "package.module:Class")])
def test_the_module_says_who_authenticates(setting: str, name: str) -> None:
    storage = MemoryStorage()
    cluster = replace(CONFIG.settings.cluster, authenticator=setting)
    config = replace(CONFIG, settings=replace(CONFIG.settings, cluster=cluster))
    MarkMaker(storage, config.folder, cluster_id=0, pid=11, now_ms=1000).module(config)
    assert read_mark_file(storage, layout.CLUSTER_MARK, ClusterMarkHeader).header.authenticator == name


def test_activity_is_written_once_a_second_and_ended_by_minus_one() -> None:
    storage = MemoryStorage()
    marks = keeper(storage, 1000)
    marks.signal_ready(1000)
    marks.do_work(Now(0, 2000))
    marks.do_work(Now(ACTIVITY_INTERVAL_NS - 1, 2999))
    assert activities(storage) == [2000] * 3
    assert marks.next_deadline_ns() == ACTIVITY_INTERVAL_NS
    marks.do_work(Now(ACTIVITY_INTERVAL_NS, 3000))
    assert activities(storage) == [3000] * 3
    marks.close()
    assert activities(storage) == [-1] * 3


@pytest.mark.parametrize("dies", ["while it starts", "while it runs"])
@pytest.mark.parametrize("restart_ms", [1000, 1500, 500])
def test_a_member_that_was_killed_can_start_again_at_once(dies: str, restart_ms: int) -> None:
    storage = MemoryStorage()
    marks = keeper(storage, 1000)
    if dies == "while it runs":
        marks.signal_ready(1000)
    keeper(storage, restart_ms).signal_ready(restart_ms)
    assert activities(storage) == [restart_ms] * 3


def test_a_file_that_was_made_only_to_be_locked_is_taken() -> None:
    storage = MemoryStorage()
    for path in (layout.ARCHIVE_MARK, layout.CLUSTER_MARK, layout.service_mark(0)):
        storage.open(path, create=True).close()
    keeper(storage, 1000).signal_ready(1000)
    assert activities(storage) == [1000] * 3


def test_errors_go_to_the_log_of_the_main_component() -> None:
    storage = MemoryStorage()
    marks = keeper(storage, 1000)
    for at_ms in (1, 2, 3):
        marks.record_error(Now(0, at_ms), "bad frame")
    errors = read_mark_file(storage, layout.CLUSTER_MARK, ClusterMarkHeader).errors
    assert [(error.text, error.count, error.first_ms, error.last_ms) for error in errors] == [("bad frame", 3, 1, 3)]


def test_a_failed_start_is_marked() -> None:
    storage = MemoryStorage()
    keeper(storage, 1000).signal_failed_start()
    assert read_mark_file(storage, layout.CLUSTER_MARK, ClusterMarkHeader).header.version == VERSION_FAILED
    assert activities(storage) == [-1] * 3
