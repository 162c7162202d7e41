"""Tasks that run on other machines are told nothing of the dispatcher's disk."""

from __future__ import annotations

import io
import pickle
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any

import pytest

from infra.servers.minio import MinioServer
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.pipeline.location import S3Folder
from photon.storage.delta import open_table
from tests.conftest import BUCKET
from tests.simulation.world import World

pytestmark = pytest.mark.server


class Sending(LocalRunner):
    """Runs tasks as a cluster does: of what it was sent, as bytes."""

    def __init__(self, world: World) -> None:
        super().__init__(world.clock)
        self.sent: list[BatchTasks] = []

    def run(self, batch: BatchTasks) -> list[TaskOutcome]:
        self.sent.append(batch)
        sent: BatchTasks = pickle.loads(pickle.dumps(batch.elsewhere()))
        return super().run(sent)


@pytest.fixture
def world(tmp_path: Path, minio: MinioServer, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    world = World(tmp_path)
    lake = S3Folder(BUCKET, tmp_path.name, minio.url)
    east = world.pipeline.datacenters["east"].model_copy(update={"lake": lake})
    world.pipeline = world.pipeline.model_copy(update={"datacenters": {"east": east}})
    return world


class _PathFinder(pickle.Pickler):
    """Collects the absolute paths in what it pickles."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO())
        self.found: set[str] = set()

    def persistent_id(self, obj: Any) -> None:
        if isinstance(obj, PurePath | str) and str(obj).startswith("/") and len(str(obj)) > 1:
            self.found.add(str(obj))


def paths_in(batch: BatchTasks, world: World) -> set[str]:
    """The folders of the dispatcher's machine that are named in what is sent."""
    place = world.pipeline.datacenters["east"]
    # The logs too are to be on S3.
    on_s3 = place.model_copy(update={"logs": S3Folder(BUCKET, "logs")})
    pipeline = world.pipeline.model_copy(update={"datacenters": {"east": on_s3}})
    finder = _PathFinder()
    finder.dump(replace(batch, context=replace(batch.context, pipeline=pipeline)).elsewhere())
    return finder.found


def test_what_is_sent_names_no_folder_of_the_dispatchers_machine(world: World) -> None:
    runner = Sending(world)
    world.queries("q1", "q2")
    world.clicks(("c1", "q1"), ("c3", "q3"))
    world.join(runner=runner)
    world.queries("q3")
    world.join(runner=runner, mode="complete")
    rows = open_table(world.pipeline.datacenters["east"].lake / "joined_events").to_pyarrow_table()
    assert sorted(rows["_event_id"].to_pylist()) == ["c1", "c3"]
    assert any(task.retries for batch in runner.sent for task in batch.join_tasks)
    assert any(batch.index_tasks for batch in runner.sent)
    assert [paths_in(batch, world) for batch in runner.sent] == [set()] * len(runner.sent)


def test_a_path_that_was_sent_would_be_noticed(world: World) -> None:
    runner = Sending(world)
    world.queries("q1")
    world.join(runner=runner)
    (sent,) = runner.sent
    with_a_path = replace(sent, context=replace(sent.context, work=world.state()))
    assert paths_in(with_a_path, world) == {str(world.state())}
