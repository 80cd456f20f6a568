"""How the node image puts its configuration where its member reads it."""

import importlib.util
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

START = Path(__file__).resolve().parents[3] / "images" / "node" / "start.py"
COMPONENTS = 3


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("image_start", START)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


def test_components_that_start_at_the_same_time_all_get_the_configuration(start: ModuleType, tmp_path: Path) -> None:
    """They share the volume of their member."""
    with ThreadPoolExecutor(COMPONENTS) as pool:
        for _ in pool.map(lambda _: start.configure('{"profile": "test"}', "2"), range(COMPONENTS * 100)):
            pass
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    values = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert values == {"folder": str(tmp_path), "profile": "test", "member_id": 2}
