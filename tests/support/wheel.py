"""Photon as a wheel, and environments that have it: nothing in them leads to this checkout."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

from photon.toolchain.fetched import share_dir
from tests.documents import ROOT


def build_wheel(folder: Path) -> Path:
    """Build the wheel in `folder`, from a copy of the checkout, since a build leaves folders behind."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    known = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in known.splitlines():
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
    return wheel


@dataclass(frozen=True)
class Environment:
    """A virtual environment outside of the checkout."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        """Run a program of it in a folder, without what the tests' own process has in its environment."""
        return subprocess.run(
            [self.folder / "bin" / command[0], *command[1:]],
            cwd=cwd,
            env=self.variables,
            capture_output=True,
            text=True,
            check=False,
        )

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables of its processes."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {"PATH": f"{self.folder / 'bin'}:/usr/bin:/bin", "HOME": str(home), "LC_ALL": "C.UTF-8"}


def installed_beside_our_packages(wheel: Path, folder: Path) -> Environment:
    """Install the wheel where all packages of this environment are seen, and what it fetched.

    To install them anew takes minutes. A path in a .pth file brings packages, and none of the .pth files
    beside them: so not the one that leads to the checkout.
    """
    venv.create(folder, with_pip=False)
    made = Environment(folder)
    unpacked = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    pip = [sys.executable, "-m", "pip", "--python", str(made.python), "install", "--quiet", "--no-deps"]
    subprocess.run([*pip, "--no-index", str(wheel)], check=True)
    (Path(unpacked) / "ours.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "share").mkdir(exist_ok=True)
    (folder / "share" / "photon").symlink_to(share_dir())
    return made


def installed_from_the_index(wheel: Path, folder: Path, end: str, *extras: str) -> Environment:
    """Install the wheel in an empty environment, with packages of an end of all ranges: newest, oldest."""
    venv.create(folder, with_pip=False)
    made = Environment(folder)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"]]
    asked += [each for extra in extras for each in project["optional-dependencies"][extra]]
    lowest = [re.sub(r"([^>]+)>=([\d.]+).*", r"\1==\2", each) for each in asked]
    wanted = [f"{wheel}[{','.join(extras)}]" if extras else wheel, *(lowest if end == "oldest" else ())]
    # What is imported is compiled then: pip would compile the whole of pyarrow and boto3.
    pip = [sys.executable, "-m", "pip", "--python", str(made.python), "install", "--quiet", "--no-compile"]
    subprocess.run([*pip, *wanted], check=True)
    return made
