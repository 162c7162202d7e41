"""Handles that simulated processes are lent are as good as those that each would open."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from photon.storage.tables import OutputTable, app_id
from tests.simulation.whole import tables
from tests.simulation.whole.tables import lent_tables

APP = app_id("east", "1")


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with one commit, where each process asks after the one before it has ended."""
    monkeypatch.setattr(tables, "this_process", lambda: SimpleNamespace(is_over=True))
    OutputTable(tmp_path / "lake", "joined_events").create("searches", "east")
    return tmp_path / "lake"


def test_a_handle_is_lent_again_with_the_commits_since(lake: Path) -> None:
    lend = lent_tables(Counter())
    lent = lend(lake / "joined_events")
    OutputTable(lake, "joined_events").fence(APP)
    assert lend(lake / "joined_events") is lent
    assert lent.version() == 1


def test_no_handle_is_lent_again_once_a_copy_of_its_lake_was_put_back(lake: Path) -> None:
    put_back = Counter[Path]()
    lend = lent_tables(put_back)
    shutil.copytree(lake, lake.with_name("copy"))
    OutputTable(lake, "joined_events").fence(APP)
    assert lend(lake / "joined_events").version() == 1
    first = lake / "joined_events" / "_delta_log" / f"{0:020d}.json"
    number = first.stat().st_ino
    shutil.copytree(lake.with_name("copy"), lake, dirs_exist_ok=True)
    first.with_name(f"{1:020d}.json").unlink()
    put_back[lake] += 1
    assert first.stat().st_ino == number  # as a disk may give it to the next file
    assert lend(lake / "joined_events").version() == 0
