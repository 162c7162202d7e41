"""Dagster as infra/production has it: its settings and environment, and the commands of its systemd units."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import Template

import pytest
from dagster import DagsterInstance, DagsterRunStatus, EventLogEntry
from dagster._core.storage.dagster_run import FINISHED_STATUSES

from examples.demo.process_tree import Program
from photon.dispatcher.shift.growth import growth_of
from photon.dispatcher.shift.lease import Lease, lease_status_of
from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock

PROJECT = Path(__file__).parents[2]
PRODUCTION = PROJECT / "infra" / "production"
UNITS = tuple(sorted(path.stem for path in PRODUCTION.glob("*.service")))
INSTALLED, SETTINGS = Path("/opt/photon/bin"), Path("/etc/photon")  # where the units have Photon


def commands_of(unit: str, environment: Mapping[str, str], key: str = "ExecStart") -> list[list[str]]:
    """Return the commands that systemd would run for a unit, with this project's programs."""
    lines = re.findall(rf"^{key}=(.+)$", (PRODUCTION / f"{unit}.service").read_text(), flags=re.MULTILINE)
    found = [shlex.split(Template(line).substitute(environment)) for line in lines]
    return [[_here(program), *map(_file_here, arguments)] for program, *arguments in found]


def _here(program: str) -> str:
    assert Path(program).parent == INSTALLED, program
    return str(Path(sys.executable).with_name(Path(program).name))


def _file_here(argument: str) -> str:
    is_file = Path(argument).parent == SETTINGS
    return str(PRODUCTION / Path(argument).name) if is_file else argument


def home_in(folder: Path) -> Path:
    """A DAGSTER_HOME with the settings for production."""
    home = folder / "dagster"
    home.mkdir()
    shutil.copy(PRODUCTION / "dagster.yaml", home)
    return home


def program_of(unit: str, folder: Path, environment: Mapping[str, str]) -> Program:
    """Describe a unit as a process of a test."""
    (command,) = commands_of(unit, environment)
    ends_first = unit == "photon-daemon"  # the daemon starts shifts
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


def last_words(entries: Sequence[EventLogEntry], most: int = 8) -> list[str]:
    """The last entries of a run's log, each with its error."""
    said = [(entry.user_message, entry.dagster_event) for entry in entries[-most:]]
    return [f"{message} {event.event_specific_data if event else ''}"[:2_000] for message, event in said]


def are_over(found: dict[str, DagsterRunStatus]) -> bool:
    return all(status in FINISHED_STATUSES for status in found.values())


def lease_of(pipeline: Pipeline, datacenter: str) -> Lease:
    lease = lease_status_of(pipeline.datacenters[datacenter].state).lease
    assert lease is not None
    return lease


def is_done(pipeline: Pipeline, datacenter: str) -> bool:
    """Say whether the datacenter's last shift has left, with nothing more to do."""
    lease_status = lease_status_of(pipeline.datacenters[datacenter].state)
    growth = growth_of(pipeline, datacenter, SystemClock().now_us())
    left_idle = lease_status.lease is not None and lease_status.lease.idle_seen == growth.signature
    return left_idle and not lease_status.is_locked and not growth.waiting
