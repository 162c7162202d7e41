"""A lake is put back under a process: it begins a new epoch, and makes the rows again (protocol A13)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from photon.dispatcher.completion import Superseded
from photon.dispatcher.retrying import BatchReport, Callbacks
from photon.registry.epochs import begin_epoch
from photon.storage.columns import TableName
from photon.storage.tables import OutputTable, app_id
from tests.simulation.put_back_stories import Copied, gives_up, with_copies_of_one_click
from tests.support.crashes import at

JOINED = ["c1", "d1", "d2"]


@pytest.fixture
def world(tmp_path: Path) -> Copied:
    return with_copies_of_one_click(tmp_path)


@pytest.mark.parametrize(
    "point",
    ["batch.before_run", "claim.after", "commit.before_main", "commit.after_main"],
)
def test_a_lake_that_is_put_back_under_a_process_has_it_begin_a_new_epoch_and_make_the_rows_again(
    world: Copied, caplog: pytest.LogCaptureFixture, point: str
) -> None:
    """Broken variant: the table is not at the batch before, and each commit conflicts, for ever."""

    def put_back() -> None:
        world.put_back(["lake"])
        world.clicks(("f1", "q1"))

    world.clicks(("e1", "q1"))
    with at(point, put_back):
        world.join(callbacks=Callbacks(should_stop=gives_up()))
    assert "the lake was put back: the table is at batch 1 of epoch 1" in caplog.text
    assert world.read_state().epoch == "2"
    world.must_be_sound([*JOINED, "e1", "f1"])


@pytest.mark.parametrize("batches", [1, 3])
def test_a_lake_of_any_age_that_is_put_back_between_two_batches_is_noticed_by_the_second(
    world: Copied, batches: int
) -> None:
    """The copy lacks one batch, or several."""
    done = list[int]()

    def on_batch(report: BatchReport) -> None:
        done.append(report.batch)
        if len(done) == batches:
            world.put_back(["lake"])
        if len(done) <= batches:
            world.clicks((f"f{report.batch}", "q1"))

    world.copy(["lake"])
    world.clicks(("e1", "q1"))
    world.join(callbacks=Callbacks(should_stop=gives_up(), on_batch=on_batch))
    assert world.ledgers.register.epochs == {"east": 2}
    world.must_be_sound([*JOINED, "e1", *(f"f{3 + n}" for n in range(batches))])


def test_a_process_whose_lake_was_put_back_ends_where_another_one_has_begun_a_newer_epoch(
    world: Copied,
) -> None:
    done = list[int]()

    def on_batch(report: BatchReport) -> None:
        done.append(report.batch)
        begin_epoch(world.reader(), "east", 0, world.ledgers.register.tables["east"])
        world.put_back(["lake"])
        world.clicks(("f1", "q1"))

    world.clicks(("e1", "q1"))
    with pytest.raises(Superseded, match="the lake was put back"):
        world.join(callbacks=Callbacks(should_stop=gives_up(), on_batch=on_batch))
    assert len(done) == 1
    world.join()
    world.must_be_sound([*JOINED, "e1", "f1"])


def test_a_lake_of_before_the_epoch_is_noticed_by_its_first_batch(world: Copied) -> None:
    """Broken variant: a table that knows nothing of an epoch counts as one that is at its batch 0."""
    world.clicks(("e1", "q1"))
    shutil.rmtree(world.state())
    with at("batch.before_run", lambda: world.put_back(["lake"])):
        world.join(callbacks=Callbacks(should_stop=gives_up()))
    assert world.ledgers.register.epochs == {"east": 3}
    world.must_be_sound([*JOINED, "e1"])


def test_a_lake_of_before_the_epoch_is_noticed_by_the_next_start(world: Copied) -> None:
    world.clicks(("e1", "q1"))
    shutil.rmtree(world.state())
    assert world.join_with_a_crash("batch.before_run")
    world.put_back(["lake"])
    world.join(callbacks=Callbacks(should_stop=gives_up()))
    assert world.ledgers.register.epochs == {"east": 3}
    world.must_be_sound([*JOINED, "e1"])


@pytest.mark.parametrize("fenced", ["dead_letters", "left_out"])
def test_an_epoch_that_others_have_half_fenced_is_ended_by_its_own_process(
    world: Copied, fenced: TableName
) -> None:
    """Others fence the joined rows last, and may die before. Broken variant: each try conflicts, for ever."""
    lake = world.pipeline.datacenters["east"].lake
    world.log("east", "clicks", "no record at all\n")
    world.join()
    OutputTable(lake, "left_out").create(world.pipeline.name, "east")
    OutputTable(lake, fenced).fence(app_id("east", "1", fenced))
    world.clicks(("e1", "q1"))
    world.log("east", "clicks", "no record either\n")
    world.join(callbacks=Callbacks(should_stop=gives_up()))
    assert world.ledgers.register.epochs == {"east": 2 if fenced == "dead_letters" else 1}
    world.must_be_sound([*JOINED, "e1"])
    assert len({row["raw"] for row in world.rows("dead_letters")}) == 2
