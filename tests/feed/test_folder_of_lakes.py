"""Folders that are fed from real tables: who looks late has the same bytes as who looked at every release."""

from __future__ import annotations

import json
import random
from contextlib import closing
from pathlib import Path

import pytest

from photon.feed.folder import FedFolder
from photon.feed.sink import Fed
from photon.feed.steps import snapshot, steps
from photon.process.clock import SystemClock
from tests.feed.test_folder import files, marker
from tests.releases.lakes import Lakes, new_lakes
from tests.support.shares import seeds


def follow(lakes: Lakes, folder: Path) -> None:
    """One look: deliver what is there behind the marker."""
    with closing(FedFolder(folder, Fed(lakes.pipeline.file, lakes.pipeline.name))) as sink:
        if (last := sink.cursor()) is None:
            last = lakes.made[0].release
            sink.deliver([snapshot(lakes.pipeline, last)])
        for each in steps(lakes.pipeline, last, SystemClock(), inserts_only=True):
            sink.deliver([each])


def events_of(folder: Path) -> set[str]:
    found = [json.loads(line)["_event_id"] for name in files(folder).values() for line in name.splitlines()]
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize("seed", seeds(2, 3))
def test_two_folders_have_the_same_bytes_whenever_their_followers_look(tmp_path: Path, seed: int) -> None:
    lakes, rng = new_lakes(tmp_path / "lakes", tmp_path), random.Random(seed)
    eager, lazy = tmp_path / "eager", tmp_path / "lazy"
    lakes.release()
    for _ in range(12):
        name = rng.choice(["east", "west"])
        rng.choice([*[lakes.append] * 4, lakes.compact, lakes.rebuild, lakes.begin_epoch])(name)
        lakes.release(lags=rng.choice([0, 0, 1]))
        follow(lakes, eager)
        if rng.random() < 0.2:
            follow(lakes, lazy)
    follow(lakes, lazy)
    assert files(eager) == files(lazy)
    assert marker(eager) == marker(lazy)
    assert events_of(eager) == {event for event, _ in lakes.made[-1].joined}
