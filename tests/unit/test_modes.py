"""Nobody but its user may read what a datacenter keeps of logs, or hold the locks that stop it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from photon import read
from photon.process.operating_system import held_alone, private_file, private_folder
from photon.releases.sql import MEMORY_SHARE
from photon.state.starting import LOCK_FILE
from tests.releases.lakes import new_lakes
from tests.simulation.world import World


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_folder_of_a_state_is_its_users_alone(tmp_path: Path) -> None:
    world = World(tmp_path, ("east",))
    world.events("c1")
    world.join()
    state = world.pipeline.datacenters["east"].state
    assert mode(state) == 0o700
    assert {each.name: oct(mode(each)) for each in state.glob("*.sqlite*") if mode(each) != 0o600} == {}


def test_databases_in_a_folder_that_somebody_made_for_all_are_their_users_alone(tmp_path: Path) -> None:
    world = World(tmp_path, ("east",))
    state = world.pipeline.datacenters["east"].state
    state.mkdir(parents=True)
    state.chmod(0o777)
    world.events("c1")
    world.join()
    found = list(state.glob("*.sqlite*"))
    assert found
    assert {mode(each) for each in found} == {0o600}
    assert mode(state) == 0o777  # whoever made it decides


@pytest.mark.parametrize("name", [LOCK_FILE, "another.lock"])
def test_a_lock_can_be_opened_by_its_user_alone(tmp_path: Path, name: str) -> None:
    with held_alone(private_folder(tmp_path / "state") / name):
        assert mode(tmp_path / "state" / name) == 0o600


def test_a_file_that_is_there_keeps_its_content_and_mode(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("kept")
    private_file(tmp_path / "kept")
    assert ((tmp_path / "kept").read_text(), mode(tmp_path / "kept")) == ("kept", 0o644)


def test_what_a_query_puts_on_disk_nobody_else_can_read_and_it_leaves_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    lakes = new_lakes(tmp_path / "lakes", tmp_path)
    lakes.append("east")
    lakes.release()
    connection = read.duckdb(lakes.pipeline)
    settings = dict(
        connection.execute(
            "SELECT name, value FROM duckdb_settings() WHERE name IN ('temp_directory', 'memory_limit')"
        ).fetchall()
    )
    assert mode(Path(settings["temp_directory"]).parent) == 0o700
    machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit, unit = settings["memory_limit"].split()
    limit_bytes = float(limit) * {"MiB": 2**20, "GiB": 2**30, "TiB": 2**40}[unit]
    assert limit_bytes <= (MEMORY_SHARE + 0.01) * machine_bytes
