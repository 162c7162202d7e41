"""Pip installs the product with all files that it reads, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.documents import ROOT

FOLDERS = ("photon", "jobs", "resources", "assets", "orchestration")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files of the wheel. It is built from a copy, since a build leaves folders behind."""
    folder = tmp_path_factory.mktemp("wheel")
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in tracked.splitlines():
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink() or (ROOT / name).is_file():
            shutil.copy(ROOT / name, folder / "source" / name, follow_symlinks=False)
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"),
            *("--wheel-dir", str(folder), str(folder / "source")),
        ],
        check=True,
    )
    (wheel,) = folder.glob("*.whl")
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
