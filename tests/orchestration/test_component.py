"""A Dagster project elsewhere on the disk serves a pipeline by five lines of YAML."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from examples.demo.traffic import Traffic

PATIENCE_SECONDS = 240.0
FIVE_LINES = """\
type: photon.orchestration.component.PhotonPipelineComponent
attributes:
  pipelines:
    - clicks.yaml
  datacenters: [east]
"""
SETTINGS = """\
[tool.dg]
directory_type = "project"
[tool.dg.project]
root_module = "mine"
"""
# The project's own asset depends on Photon's, and keeps its value by the project's own IO manager.
OWN_ASSET = """\
import dagster as dg

@dg.asset(deps=[dg.AssetKey(["clicks", "joined_events"])])
def seven() -> int:
    return 7

defs = dg.Definitions(assets=[seven], resources={"io_manager": dg.FilesystemIOManager(base_dir="values")})
"""
PROGRAM = """\
import json
from pathlib import Path
import dagster as dg

defs = dg.load_from_defs_folder(path_within_project=Path.cwd())
with dg.DagsterInstance.from_config("home") as instance:
    shift = defs.get_job_def("clicks__shift").execute_in_process(instance=instance, partition_key="east")
    own = defs.get_implicit_global_asset_job_def().execute_in_process(
        instance=instance, asset_selection=[dg.AssetKey("seven")]
    )
print(json.dumps({
    "shift": shift.success,
    "own": own.success,
    "sensors": sorted(sensor.name for sensor in defs.sensors),
}))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project of `dg` with one component, and one asset of its own."""
    folder = tmp_path / "project"
    defs = folder / "mine" / "defs"
    (defs / "photon").mkdir(parents=True)
    (folder / "home").mkdir()
    (folder / "home" / "dagster.yaml").touch()
    (folder / "pyproject.toml").write_text(SETTINGS)
    for package in (folder / "mine", defs):
        (package / "__init__.py").touch()
    (defs / "photon" / "defs.yaml").write_text(FIVE_LINES)
    (defs / "own.py").write_text(OWN_ASSET)
    traffic = Traffic(1, ("east", "west"), duration_seconds=2)
    written = traffic.write_pipeline(defs / "photon", "clicks", "shift: {idle: 1s}\n")
    written.rename(defs / "photon" / "clicks.yaml")
    traffic.write_all(defs / "photon")
    return folder


def run(project: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=project, capture_output=True, text=True,
        timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.spark
def test_a_project_elsewhere_joins_by_five_lines_beside_assets_of_its_own(project: Path) -> None:
    found = run(project)
    assert found["shift"], "a shift of the component joins"
    assert found["own"]
    assert list((project / "values").iterdir()), "the project's own IO manager keeps the values of its assets"
    assert "clicks__east__sensor" in found["sensors"]
    assert "clicks__west__sensor" not in found["sensors"]
    assert list((project / "mine/defs/photon").glob("lake/east/joined_events/*/*.parquet"))
