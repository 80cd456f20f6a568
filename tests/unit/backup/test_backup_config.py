"""What a backup is configured with."""

import json
from pathlib import Path
from typing import Any

import pytest

from upheaval_node.backup.config import (
    BackupConfig,
    BackupEndpoints,
    ReplayStart,
    SourceType,
    backup_config_from_fields,
)
from upheaval_node.errors import UsageError
from upheaval_node.runtime.backup import CONFIG_VARIABLE, read_backup_config_file
from upheaval_node.settings import BackupNodeSettings, backup_profile_settings
from upheaval_node.types import S

FIELDS: dict[str, Any] = {
    "name": "backup-0",
    "folder": "data",
    "cluster_id": 3,
    "consensus_endpoints": ["a:1", "b:1"],
    "endpoints": {"consensus": "c:0", "catchup": "c:0", "archive": "c:3"},
}


def test_defaults_are_aeron_s() -> None:
    config = backup_config_from_fields(FIELDS)
    assert config == BackupConfig(
        name="backup-0",
        folder="data",
        cluster_id=3,
        consensus_endpoints=("a:1", "b:1"),
        endpoints=BackupEndpoints("c:0", "c:0", "c:3"),
    )
    assert (config.source, config.replay_start) == (SourceType.ANY, ReplayStart.BEGINNING)
    backup = config.settings.backup
    assert (backup.query_interval_ns, backup.response_timeout_ns) == (3600 * S, 5 * S)
    assert (backup.progress_timeout_ns, backup.cool_down_interval_ns) == (10 * S, 30 * S)


def test_everything_can_be_set() -> None:
    config = backup_config_from_fields(
        {
            **FIELDS,
            "source": "LEADER",
            "replay_start": "LATEST_SNAPSHOT",
            "profile": "test",
            "sync_level": 1,
            "settings": {"backup": {"cool_down_interval_ns": 7}, "archive": {"max_replays": 3}},
            "names": {"a:1": "127.0.0.1:1"},
            "run_id": "r",
            "trace": "t",
            "seed": 4,
            "metrics_port": 99,
            "metrics_host": "::1",
            "protocol_trace": 10,
            "credentials_file": "f",
        }
    )
    assert (config.source, config.replay_start) == (SourceType.LEADER, ReplayStart.LATEST_SNAPSHOT)
    assert (config.settings.backup.cool_down_interval_ns, config.settings.archive.max_replays) == (7, 3)
    assert (config.settings.backup.file_sync_level, config.settings.archive.file_sync_level) == (1, 1)
    assert config.settings.backup.query_interval_ns == backup_profile_settings("test").backup.query_interval_ns
    assert (config.metrics_address, config.names, config.seed) == ("[::1]:99", {"a:1": "127.0.0.1:1"}, 4)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"consensus_endpoints": []}, "consensus_endpoints"),
        ({"consensus_endpoints": ["a:1", "a:1"]}, "duplicate member in consensus_endpoints"),
        ({"consensus_endpoints": ["a"]}, "'a'"),
        ({"consensus_endpoints": ["a:0"]}, "a:0 needs a port"),
        ({"consensus_endpoints": 3}, "consensus_endpoints"),
        ({"endpoints": {"consensus": "c:1", "catchup": "c:2"}}, "archive"),
        ({"endpoints": {**FIELDS["endpoints"], "ingress": "c:4"}}, "ingress"),
        ({"endpoints": {**FIELDS["endpoints"], "archive": "c:0"}}, "c:0 needs a port"),
        ({"endpoints": {**FIELDS["endpoints"], "catchup": "c:70000"}}, "c:70000"),
        ({"endpoints": None}, "endpoints"),
        ({"source": "ALL"}, "source must be one of ANY, LEADER, FOLLOWER"),
        ({"replay_start": "END"}, "replay_start must be one of BEGINNING, LATEST_SNAPSHOT"),
        ({"profile": "fast"}, "profile"),
        ({"sync_level": 3}, "sync level"),
        ({"settings": {"cluster": {}}}, "settings.cluster"),
        ({"settings": {"backup": {"interval": 1}}}, "settings.backup.interval"),
        ({"name": "a/b"}, "a/b"),
        ({"name": ""}, "name"),
        ({"metrics_port": 3}, "metrics_port"),
        ({"metrics_port": 70000}, "metrics_port"),
        ({"protocol_trace": -1}, "protocol_trace"),
        ({"members": "x"}, "members"),
        ({"folder": None}, "folder"),
    ],
)
def test_what_makes_no_sense_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        backup_config_from_fields({**FIELDS, **changes})


def test_unknown_profiles_and_levels_are_refused() -> None:
    assert backup_profile_settings("aeron") == BackupNodeSettings()
    with pytest.raises(UsageError, match="unknown profile 'x'"):
        backup_profile_settings("x")
    with pytest.raises(UsageError, match="sync level"):
        backup_profile_settings("test", sync_level=-1)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "backup.json"
    file.write_text(json.dumps({**FIELDS, "credentials_file": "secret"}))
    config = read_backup_config_file(str(file))
    assert (config.folder, config.credentials_file) == (str(tmp_path / "data"), str(tmp_path / "secret"))
    file.write_text(json.dumps({**FIELDS, "credentials_file": "env:SECRET"}))
    assert read_backup_config_file(str(file)).credentials_file == "env:SECRET"


def test_the_configuration_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(CONFIG_VARIABLE, raising=False)
    with pytest.raises(UsageError, match=CONFIG_VARIABLE):
        read_backup_config_file(None)
    monkeypatch.setenv(CONFIG_VARIABLE, json.dumps(FIELDS))
    assert read_backup_config_file(None).folder == str(tmp_path / "data")
    for text in ("{", "[]", "[" * 100_000):
        monkeypatch.setenv(CONFIG_VARIABLE, text)
        with pytest.raises(UsageError, match=CONFIG_VARIABLE):
            read_backup_config_file(None)
