"""Dagster as infra/production has it: its settings and environment, and the commands of its systemd units."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from string import Template

import pytest
from dagster import DagsterInstance

from orchestration.demo.process_tree import Program

PROJECT = Path(__file__).parents[2]
PRODUCTION = PROJECT / "infra" / "production"
UNITS = tuple(sorted(path.stem for path in PRODUCTION.glob("*.service")))
INSTALLED = Path("/opt/photon/.venv/bin")  # where the units have Photon


def commands_of(unit: str, environment: Mapping[str, str], key: str = "ExecStart") -> list[list[str]]:
    """What systemd would run for a unit, with the programs of this project."""
    lines = re.findall(rf"^{key}=(.+)$", (PRODUCTION / f"{unit}.service").read_text(), flags=re.MULTILINE)
    found = [shlex.split(Template(line).substitute(environment)) for line in lines]
    return [[_here(program), *arguments] for program, *arguments in found]


def _here(program: str) -> str:
    assert Path(program).parent == INSTALLED, program
    return str(Path(sys.executable).with_name(Path(program).name))


def home_in(folder: Path) -> Path:
    """A DAGSTER_HOME with the settings for production."""
    home = folder / "dagster"
    home.mkdir()
    shutil.copy(PRODUCTION / "dagster.yaml", home)
    return home


def program_of(unit: str, folder: Path, environment: Mapping[str, str]) -> Program:
    """A unit as a process of a test."""
    (command,) = commands_of(unit, environment)
    ends_first = unit == "photon-daemon"  # it starts shifts
    return Program(unit, tuple(command), PROJECT, folder / f"{unit}.log", environment, ends_first)


@contextmanager
def instance_of(home: Path, environment: Mapping[str, str]) -> Iterator[DagsterInstance]:
    """The Dagster of a home."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**environment, "DAGSTER_HOME": str(home)}.items():
            patch.setenv(name, value)
        with DagsterInstance.from_config(str(home)) as instance:
            yield instance


def documented_environment() -> dict[str, str]:
    """The variables of photon.env, with the values that it shows."""
    lines = (PRODUCTION / "photon.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
