"""The example: its logs and its pipeline file belong together."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def make_logs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_logs", EXAMPLES / "make_logs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pipeline_file_is_that_of_the_generated_logs(make_logs: ModuleType) -> None:
    committed = yaml.safe_load((EXAMPLES / "search_clicks" / "pipeline.yaml").read_text())
    assert committed == yaml.safe_load(make_logs.TRAFFIC.pipeline_text())


def test_logs_are_written_once_and_then_left_alone(make_logs: ModuleType, tmp_path: Path) -> None:
    assert make_logs.make_logs(tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.jsonl")}
    assert not make_logs.make_logs(tmp_path)
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.jsonl")}


def test_an_interrupted_writing_begins_anew(make_logs: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "logs.partial" / "logs").mkdir(parents=True)
    (tmp_path / "logs.partial" / "logs" / "half").write_text("half")
    assert make_logs.make_logs(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs"]
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["east", "west"]
