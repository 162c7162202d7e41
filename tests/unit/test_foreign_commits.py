"""Commits of others are told from Photon's own by what is in the log, and from what changes no row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake

from photon.storage.changes import Commit, commit_at
from photon.storage.foreign_commits import ForeignCommits, ForeignCommitWatch, is_photons, together
from photon.storage.tables import OutputTable
from photon.upkeep.compact import plan_compaction
from tests.simulation.world import World
from tests.table_changes import commit, last_version

ADD, REMOVE = {"path": "a", "dataChange": True}, {"path": "b", "dataChange": True}
KEPT = {"path": "c", "dataChange": False}


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world whose clicks c0 to c3 are joined, in two batches."""
    world = World(tmp_path)
    world.queries("q")
    for first in (0, 2):
        world.clicks(*((f"c{n}", "q") for n in (first, first + 1)))
        world.join()
    return world


def folder_of(world: World, table: str = "joined_events") -> Path:
    lake = world.pipeline.datacenters["east"].lake
    assert isinstance(lake, Path)
    return lake / table


def found(world: World, after: Commit) -> list[tuple[str, int]]:
    """The kinds of what others did, each with the number of its commits."""
    folder = folder_of(world)
    facts = ForeignCommitWatch(folder, "east", "joined_events").look(after, last_version(folder))
    return [(one.kind, one.commits) for one in facts]


def now(world: World) -> Commit:
    return commit_at(folder_of(world), last_version(folder_of(world)))


def of(app: str, number: int = 3, said: str = "photon.batch", **says: Any) -> list[dict[str, Any]]:
    info = {"photon.app": app, said: str(number), **says}
    return [{"commitInfo": info}, {"txn": {"appId": app, "version": number}}]


@pytest.mark.parametrize(
    ("is_ours", "actions"),
    [
        (True, [*of("photon:east:1:joined_events"), {"add": ADD}]),
        (True, [*of("photon:east:rebuild", said="photon.replacement"), {"add": ADD}, {"remove": REMOVE}]),
        (True, [*of("photon:east:compaction", said="photon.replacement"), {"add": KEPT}, {"remove": KEPT}]),
        (False, [{"add": ADD}]),
        (False, [{"commitInfo": {"photon.app": "photon:east:1:joined_events"}}, {"add": ADD}]),
        (False, [*of("photon:east:1:joined_events"), {"add": ADD}, {"remove": REMOVE}]),
        (False, [*of("photon:east:1:unjoined"), {"add": ADD}]),
        (False, [*of("photon:west:1:joined_events"), {"add": ADD}]),
        (False, [*of("photon:east:1:joined_events", **{"photon.batch": "4"}), {"add": ADD}]),
        (False, [*of("photon:east:1:joined_events", number=2), {"add": ADD}]),
        (False, [*of("photon:east:compaction", said="photon.replacement"), {"remove": REMOVE}]),
        (False, [*of("photon:east:1:joined_events"), *of("photon:east:2:joined_events"), {"add": ADD}]),
    ],
)
def test_a_commit_is_photons_if_photon_could_have_made_it_here_next(
    is_ours: bool, actions: list[dict[str, Any]]
) -> None:
    assert is_photons(actions, "east", "joined_events", {"photon:east:1:joined_events": 2}) == is_ours


def test_what_photon_commits_to_its_tables_is_its_own(world: World) -> None:
    plan_compaction(world.pipeline, "east", world.clock, least_files=2).apply()
    (world.state() / "dispatcher.sqlite").unlink()
    world.forget()
    world.clicks(("c9", "q"), ("wild", None))
    world.join()  # a new epoch fences the old one
    lake, tables = folder_of(world).parent, []
    for folder in (folder for folder in lake.iterdir() if (folder / "_delta_log").is_dir()):
        if folder.name in ("joined_events", "unjoined", "dead_letters", "too_old", "conflicting"):
            tables.append(folder.name)
            table = OutputTable(lake, folder.name)  # type: ignore[arg-type]
            watch = ForeignCommitWatch(folder, "east", table.name)
            assert watch.look(Commit(), last_version(folder)) == (), folder.name
    assert {"joined_events", "dead_letters"} <= {*tables}


def test_rows_that_others_take_change_or_add_are_known_by_their_commits(world: World) -> None:
    since, table = now(world), DeltaTable(str(folder_of(world)))
    table.delete("_event_id = 'c0'")
    assert found(world, since) == [("took", 1)]
    table.update(updates={"_primary_occurrence": "'1:7'"}, predicate="_event_id = 'c1'")
    assert found(world, since) == [("changed", 1), ("took", 1)], "the count of rows is the same"
    write_deltalake(table, table.to_pyarrow_table(filters=[("_event_id", "=", "c1")]), mode="append")
    assert found(world, since) == [("added", 1), ("changed", 1), ("took", 1)]


def test_files_that_others_rewrite_are_told_from_rows_that_they_change(world: World) -> None:
    since = now(world)
    DeltaTable(str(folder_of(world))).optimize.compact()
    assert found(world, since) == [("rewrote", 1)]


def test_restored_rows_are_changed_though_transactions_stay(world: World) -> None:
    since, table = now(world), DeltaTable(str(folder_of(world)))
    table.restore(last_version(folder_of(world)) - 1)
    assert found(world, since)[0][0] == "took"


def test_a_commit_before_the_newest_one_is_found(world: World) -> None:
    since = now(world)
    DeltaTable(str(folder_of(world))).delete("_event_id = 'c0'")
    world.clicks(("c9", "q"))
    world.join()
    assert found(world, since) == [("took", 1)]


def test_an_entry_that_is_gone_may_have_been_anything(world: World) -> None:
    since, folder = now(world), folder_of(world)
    DeltaTable(str(folder)).delete("_event_id = 'c0'")
    commit(folder, [{"commitInfo": {"operation": "SET TBLPROPERTIES"}}])
    (folder / "_delta_log" / f"{last_version(folder) - 1:020d}.json").unlink()
    assert found(world, since) == [("gone", 1)]


def test_another_entry_in_place_of_a_known_one_is_another_table(world: World) -> None:
    world.clicks(("wild", None))
    world.join()
    folder = folder_of(world).parent / "dead_letters"
    version = last_version(folder)
    for known in (Commit(version, "0" * 64), Commit(version + 5, "0" * 64)):
        (fact,) = ForeignCommitWatch(folder, "east", "dead_letters").look(known, version)
        assert (fact.kind, fact.commits) == ("replaced", 1)


def test_of_another_table_in_place_of_joined_rows_their_own_light_tells_alone(world: World) -> None:
    since = now(world)
    assert found(world, Commit(since.version, "0" * 64)) == []
    assert found(world, Commit(since.version + 5, since.digest)) == []


def test_a_deleted_row_is_found_past_a_feature_that_nobody_can_read(world: World) -> None:
    since, folder = now(world), folder_of(world)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "cardinality": 1, "sizeInBytes": 1}
    info = {"commitInfo": {"operation": "DELETE", "timestamp": 1_000}}
    commit(folder, [info, {"remove": REMOVE}, {"add": {**ADD, "deletionVector": vector}}])
    assert found(world, since) == [("took", 1)]


def test_facts_of_one_kind_are_one_however_many_there_are() -> None:
    days = [ForeignCommits("joined_events", "took", 1, "DELETE", n, n, n, release=n) for n in range(365)]
    (one,) = together(days)
    assert (one.commits, one.first_version, one.last_version, one.since_us) == (365, 0, 364, 0)
    assert one.release == 364, "a verification has to be behind the last one"
    assert "DELETE in version 364, and 364 commits of others before it" in one.sentence
