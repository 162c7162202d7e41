"""Stores that fill up, or are put back to older copies, under real processes: each event has one row."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from examples.demo.traffic import Traffic
from tests.e2e.outages.checker import rows_of
from tests.e2e.outages.commands import DONE, NOT_DONE, VIOLATION, command
from tests.e2e.outages.drive import SETTINGS
from tests.e2e.outages.world import World, until, world
from tests.e2e.small_disk import SmallDisk

pytestmark = [pytest.mark.server, pytest.mark.slow]

ROWS = 100  # rows that come between two steps


@pytest.fixture
def made(tmp_path: Path) -> Iterator[World]:
    """Two datacenters over three endpoints."""
    traffic = Traffic(8, primary_per_second=100, foreign_per_second=50, duration_seconds=300)
    with world(tmp_path, traffic, SETTINGS) as made:
        yield made


def count(made: World) -> int:
    return sum(len(rows_of(made.folder / "lake" / name)) for name in made.datacenters)


def goes_on(made: World) -> None:
    """Both logs grow, and so do the tables."""
    before = count(made)
    until(lambda: count(made) >= before + ROWS, "rows come")


def said(made: World, *words: str, ends: Sequence[int] = (DONE,)) -> str:
    """Run a command on the pipeline, and return what it prints."""
    log = made.folder / "commands.log"
    before = log.stat().st_size if log.exists() else 0
    command(made.folder, (*words, made.file), ends=ends)
    return log.read_text()[before:]


def complete_and_check(made: World) -> None:
    counts = made.complete()
    assert made.faults(counts) == []
    said(made, "verify")


def test_joins_go_on_past_an_endpoint_whose_disk_is_full_which_is_told_and_can_be_repaired(
    made: World,
) -> None:
    full = made.endpoints[0]
    full.kill()
    data = shutil.move(full.folder, made.folder / "data")
    try:
        disk = SmallDisk(full.folder, "1m")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a full disk can't be had")
    try:
        shutil.copytree(data, full.folder, dirs_exist_ok=True)
        full.start()
        made.begin()
        goes_on(made)
        with suppress(OSError), (full.folder / "ballast").open("wb", buffering=0) as ballast:
            while ballast.write(b"x" * 4096):
                pass
        goes_on(made)
        assert "takes no writes" in said(made, "registry", "state", "--within", "60")
        (full.folder / "ballast").unlink()
        disk.grow("64m")
        said(made, "registry", "repair", "--endpoint", full.url)
        made.endpoints[1].kill()  # the first one has its missed entries again
        goes_on(made)
        made.endpoints[1].start()
        complete_and_check(made)
    finally:
        full.kill()
        disk.unmount()


def test_a_registry_that_is_put_back_under_running_joins_ends_them_and_a_refill_mends_it(made: World) -> None:
    made.begin()
    goes_on(made)
    made.copy_endpoints(made.folder / "copies")
    goes_on(made)
    made.put_endpoints_back(made.folder / "copies")
    for datacenter in made.datacenters.values():
        until(lambda datacenter=datacenter: datacenter.refused, f"{datacenter.name} is refused")
        assert f"photon registry refill {made.file}" in datacenter.tail()
    status = said(made, "status", "--check", "--within", "60", ends=(VIOLATION,))
    assert "All is well" not in status
    assert f"photon registry refill {made.file}" in status
    said(made, "join", "--until-idle", ends=(NOT_DONE,))
    said(made, "registry", "refill")
    for datacenter in made.datacenters.values():
        datacenter.start()
    goes_on(made)
    complete_and_check(made)


@pytest.mark.parametrize(("parts", "names"), [(("state",), ("west",)), (("state", "lake"), ("east", "west"))])
def test_lakes_and_states_that_are_put_back_under_running_joins_are_made_whole_again(
    made: World, parts: tuple[str, ...], names: tuple[str, ...]
) -> None:
    """A process whose state went keeps its own files, until it ends or another one has its epoch."""
    made.begin()
    goes_on(made)
    for datacenter in made.datacenters.values():
        datacenter.kill()
    for part in parts:
        shutil.copytree(made.folder / part, made.folder / "copies" / part)
    for datacenter in made.datacenters.values():
        datacenter.start()
    goes_on(made)
    for part in parts:
        for name in names:
            place = made.folder / part / name
            place.rename(made.folder / f"{part}-{name}-of-before")
            (made.folder / "copies" / part / name).rename(place)
    goes_on(made)
    complete_and_check(made)
