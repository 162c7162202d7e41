"""Pip installs the product with all files that it reads, and nothing else."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests.documents import ROOT
from tests.support.wheel import build_wheel

FOLDERS = ("photon", "jobs", "resources", "assets", "orchestration")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the wheel."""
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.slow
def test_pip_installs_one_package_at_the_top_which_no_dagster_project_has(installed: set[str]) -> None:
    tops = {name.partition("/")[0] for name in installed}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"photon"}


@pytest.mark.slow
def test_pip_installs_every_file_that_lies_in_a_package(installed: set[str]) -> None:
    there = {f"photon/{page.relative_to(ROOT)}" for page in (ROOT / "docs").rglob("*.md")}
    there |= {
        str(Path("photon") / file.relative_to(ROOT / "photon" if folder == "photon" else ROOT))
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    }
    assert there <= installed
