"""What a standby is configured with: the fields of a backup, its services, and settings of a module."""

import json
from pathlib import Path
from typing import Any

import pytest

from upheaval_node.backup.config import backup_config_from_fields
from upheaval_node.errors import UsageError
from upheaval_node.runtime.exit_status import ExitStatus
from upheaval_node.runtime.standby import CONFIG_VARIABLE, main, read_standby_config
from upheaval_node.settings import profile_settings
from upheaval_node.standby.config import standby_config_from_fields

FIELDS: dict[str, Any] = {
    "folder": "data",
    "cluster_id": 3,
    "consensus_endpoints": ["a:1", "b:1"],
    "endpoints": {"consensus": "c:1", "catchup": "c:2", "archive": "c:3"},
}


def test_it_is_a_backup_with_the_services_of_the_cluster() -> None:
    config = standby_config_from_fields({**FIELDS, "service": ["echo", "append"], "profile": "test", "sync_level": 1})
    assert config.backup == backup_config_from_fields(
        {**FIELDS, "name": "standby-0", "profile": "test", "sync_level": 1}
    )
    assert config.services == ("echo", "append")
    own = profile_settings("test", sync_level=1).cluster
    assert (config.cluster.service_count, config.cluster.cluster_id) == (2, 3)
    assert (config.cluster.file_sync_level, config.cluster.log_term_length) == (1, own.log_term_length)
    settings = config.member_settings
    assert (settings.media, settings.archive) == (config.backup.settings.media, config.backup.settings.archive)
    assert settings.cluster is config.cluster


def test_settings_of_the_cluster_stand_beside_those_of_the_backup() -> None:
    settings = {"cluster": {"app_version": 65536, "time_unit": "NANOS"}, "backup": {"query_interval_ns": 7}}
    config = standby_config_from_fields({**FIELDS, "settings": settings})
    assert (config.cluster.app_version, config.cluster.time_unit) == (65536, "NANOS")
    assert config.backup.settings.backup.query_interval_ns == 7


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"service": []}, "0 services named"),
        ({"settings": {"cluster": {"service_count": 3}}}, "1 services named, 3 set"),
        ({"settings": {"cluster": {"cluster_id": 4}}}, "cluster id 3, but 4"),
        ({"settings": {"cluster": {"nothing": 3}}}, "settings.cluster.nothing is not a setting"),
        ({"settings": {"cluster": 3}}, "cluster must be an object"),
        ({"settings": {"nothing": {}}}, "settings.nothing is not a setting"),
        ({"settings": 3}, "settings must be an object"),
        ({"nothing": 1}, "unknown field 'nothing'"),
        ({"consensus_endpoints": []}, "names no member"),
        ({"python_path": [1]}, "python_path must be a list of texts"),
        ({"profile": "fast"}, "unknown profile"),
    ],
)
def test_what_makes_no_sense_is_named(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        standby_config_from_fields({**FIELDS, **changes})


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    file = tmp_path / "standby.json"
    file.write_text(json.dumps({**FIELDS, "python_path": ["code"], "credentials_file": "secret"}))
    config = read_standby_config(str(file))
    assert config.backup.folder == str(tmp_path / "data")
    assert config.python_path == (str(tmp_path / "code"),)
    assert config.backup.credentials_file == str(tmp_path / "secret")


def test_it_can_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(CONFIG_VARIABLE, json.dumps(FIELDS))
    assert read_standby_config(None).backup.folder == str(tmp_path / "data")


@pytest.mark.parametrize(
    ("content", "said"),
    [("{", "not valid JSON"), ("[]", "no JSON object"), (json.dumps({**FIELDS, "service": ["nobody"]}), "nobody")],
)
def test_the_program_ends_with_one_line(
    content: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "standby.json"
    file.write_text(content)
    assert main(["--config", str(file)]) == ExitStatus.USAGE
    text = capfd.readouterr().err
    assert text.startswith("upheaval-standby")
    assert text.count("\n") == 1
    assert said in text
