"""A pipeline of two datacenters, for what needs no logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from photon.pipeline.file import Pipeline, load_pipeline
from tests.support.pipelines import PIPELINE


@pytest.fixture
def pipeline_file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(PIPELINE)
    return path


@pytest.fixture
def pipeline(pipeline_file: Path) -> Pipeline:
    return load_pipeline(pipeline_file)
