"""People change tables: joins wait while a feature is there that Photon can't keep, and say so (E9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field

from photon.adapters import ROW_COLUMNS
from photon.dispatcher.retrying import Callbacks
from photon.health.status import status_of
from photon.join.messages import BatchTasks, TaskOutcome
from photon.join.tasks import LocalRunner
from photon.read import joined
from photon.storage.columns import TableName
from photon.storage.delta import UnsupportedTable
from photon.storage.own_columns import columns_of_people, marked
from photon.storage.table_features import kept_hours
from photon.upkeep.backfill.rebuild import CannotRebuild
from photon.upkeep.compact import plan_compaction
from photon.verification.scope import open_scope
from tests.simulation.reading import asking
from tests.simulation.rebuilding import rebuild, set_adapter
from tests.simulation.verifying import verify
from tests.simulation.world import World
from tests.table_changes import change, feature, last_version, map_columns


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.queries("q1", "q2", "q3")
    made.clicks(("c1", "q1"))
    made.join()
    return made


def folder(world: World, table: TableName = "joined_events") -> Path:
    found = world.pipeline.datacenters["east"].lake / table
    assert isinstance(found, Path)
    return found


def constrain(table: Path) -> Callable[[], None]:
    """Add a constraint; return the function that takes it away."""
    DeltaTable(table).alter.add_constraint({"early": "_batch < 2"})
    return lambda: DeltaTable(table).alter.drop_constraint("early")


def mark_deleted(table: Path) -> Callable[[], None]:
    change(table, feature("deletionVectors"), {"delta.enableDeletionVectors": "true"})
    plain = {"minReaderVersion": 1, "minWriterVersion": 2}  # `DROP FEATURE ... TRUNCATE HISTORY` leaves it so
    return lambda: _ignore(change(table, plain, {"delta.enableDeletionVectors": "false"}))


def map_names(table: Path) -> Callable[[], None]:
    map_columns(table)
    unmapped = {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["columnMapping"]}
    return lambda: _ignore(change(table, unmapped, {"delta.columnMapping.mode": "none"}))


def _ignore(_: object) -> None:
    return None


WITHOUT_NOTE = """
from photon.adapters import Adapter, merge
import pyarrow as pa


class Plain(Adapter):
    def combine(self, foreign, primary):
        return merge(foreign, primary)


adapter = Plain()
"""
WITH_NOTE = WITHOUT_NOTE.replace(
    "merge(foreign, primary)", "merge(foreign, primary).append_column('note', pa.array(['n'] * len(foreign)))"
)
CHANGES = {"constraint early": constrain, "deletion vectors": mark_deleted, "column mapping": map_names}
HIDING_ROWS = ("deletion vectors", "column mapping")


class Counting(LocalRunner):
    """Counts the runs; changes a table once the tasks of the first one have ended."""

    def __init__(self, world: World, after_first: Callable[[], None] = lambda: None) -> None:
        super().__init__(world.clock)
        self.runs, self.after_first = 0, after_first

    def run(self, tasks: BatchTasks) -> list[TaskOutcome]:
        done = super().run(tasks)
        self.runs += 1
        if self.runs == 1:
            self.after_first()
        return done


@pytest.mark.parametrize("name", CHANGES)
def test_a_join_waits_before_its_first_batch_and_goes_on_once_the_feature_is_gone(
    world: World, name: str
) -> None:
    take_away = CHANGES[name](folder(world))
    version = last_version(folder(world))

    def mend() -> None:
        assert last_version(folder(world)) == version
        take_away()

    world.clicks(("c2", "q2"), ("c3", "q3"))
    said = world.join_and_mend(mend)
    assert [name in one for one in said] == [True]
    assert world.joined_ids() == ["c1", "c2", "c3"]


@pytest.mark.parametrize("name", CHANGES)
def test_a_join_that_meets_the_feature_at_its_commit_runs_no_task_again_until_it_is_gone(
    world: World, name: str
) -> None:
    mends = list[Callable[[], None]]()
    runner = Counting(world, after_first=lambda: mends.append(CHANGES[name](folder(world))))
    said, runs = list[str](), list[int]()

    def on_wait(reason: str) -> None:
        said.append(reason)
        runs.append(runner.runs)

    def should_stop() -> bool:
        world.clock.advance(1)
        if len(runs) == 1 and world.clock.now_us() > began_us + 100_000_000:
            mends.pop()() if mends else None
        return False

    began_us = world.clock.now_us()
    world.clicks(("c2", "q2"), ("c3", "q3"))
    world.join(callbacks=Callbacks(on_wait=on_wait, should_stop=should_stop), runner=runner)
    assert [name in one for one in said] == [True]
    assert runs == [1]
    assert runner.runs <= 3  # the tasks again once, and the retries of what waits
    assert world.joined_ids() == ["c1", "c2", "c3"]


@pytest.mark.parametrize("table", ["dead_letters", "unjoined", "too_old"])
def test_a_join_waits_for_a_side_table_as_well(world: World, table: TableName) -> None:
    mend = constrain(folder(world, table))
    world.clicks(("c2", "q2"))
    said = world.join_and_mend(mend)
    assert [table in one and "constraint early" in one for one in said] == [True]
    assert world.joined_ids() == ["c1", "c2"]


def compact(world: World) -> None:
    plan_compaction(world.pipeline, "east", world.clock).apply()


WHO_REFUSES: dict[str, tuple[Callable[[World], object], Sequence[str]]] = {
    "a reader": (lambda world: joined(world.pipeline, retired=()), HIDING_ROWS),
    "a verification": (verify, HIDING_ROWS),
    "a rebuild": (rebuild, tuple(CHANGES)),
    "a compaction": (compact, tuple(CHANGES)),
}


@pytest.mark.parametrize(
    ("who", "name"), [(who, name) for who, (_, names) in WHO_REFUSES.items() for name in names]
)
def test_who_can_not_keep_a_feature_names_it_and_what_to_type_and_writes_nothing(
    world: World, who: str, name: str
) -> None:
    CHANGES[name](folder(world))
    version = last_version(folder(world))
    with pytest.raises(UnsupportedTable, match=f"{name}.*ALTER TABLE delta"):
        WHO_REFUSES[who][0](world)
    assert last_version(folder(world)) == version


def test_a_reader_reads_what_is_there_past_a_constraint(world: World) -> None:
    constrain(folder(world))
    assert joined(world.pipeline, retired=()).count_rows() == 1


def test_a_rebuild_takes_no_row_out_of_a_table_that_gives_none_back(world: World) -> None:
    DeltaTable(folder(world)).alter.set_table_properties({"delta.appendOnly": "true"})
    with pytest.raises(CannotRebuild, match=r"'delta\.appendOnly' = 'false'"):
        rebuild(world)
    compact(world)


def labels(world: World) -> dict[str, Any]:
    return {row["_event_id"]: row.get("label") for row in world.rows()}


def alter(world: World, click: str, **values: str) -> None:
    """Give the row of a click other values, as an UPDATE does."""
    literals = {name: f"'{value}'" for name, value in values.items()}
    DeltaTable(folder(world)).update(literals, predicate=f"_event_id = '{click}'")


def test_a_rebuild_mends_a_row_and_keeps_what_a_person_wrote_into_their_own_column(world: World) -> None:
    world.clicks(("c2", "q2"))
    world.join()
    DeltaTable(folder(world)).alter.add_columns([Field("label", "string")])  # type: ignore[arg-type]
    alter(world, "c1", label="good", primary_text="altered")
    alter(world, "c2", label="bad")
    assert rebuild(world).tally.replaced == 1
    assert labels(world) == {"c1": "good", "c2": "bad"}
    assert {row["primary_text"] for row in world.rows()} == {"text of q1", "text of q2"}


def test_a_rebuild_takes_away_what_was_written_into_a_column_that_an_adapter_once_made(world: World) -> None:
    set_adapter(world, "with_note", WITH_NOTE)
    world.clicks(("c2", "q2"))
    world.join()
    set_adapter(world, "without_note", WITHOUT_NOTE)
    rebuild(world)
    assert {row["note"] for row in world.rows()} == {None}


def test_a_compaction_keeps_what_a_person_wrote_into_their_own_column(world: World) -> None:
    DeltaTable(folder(world)).alter.add_columns([Field("label", "string")])  # type: ignore[arg-type]
    for number in range(2, 14):
        world.clicks((f"c{number}", "q2"))
        world.join()
        alter(world, f"c{number}", label=f"of {number}")
    done = plan_compaction(world.pipeline, "east", world.clock).apply()["joined_events"]
    assert done.commits > 0
    assert labels(world) == {"c1": None} | {f"c{number}": f"of {number}" for number in range(2, 14)}


def test_a_persons_own_column_is_no_wrong_value(world: World) -> None:
    """Columns that rebuilds make are compared; any other one belongs to people."""
    schema = pa.schema([*ROW_COLUMNS, marked(pa.field("text", pa.string())), pa.field("label", pa.string())])
    assert columns_of_people(schema, made=["text"]) == ["label"]
    assert columns_of_people(schema, made=["text", "label"]) == []
    assert columns_of_people(schema, made=[]) == ["label"], "an adapter made the other one once"


def test_a_persons_own_column_stops_no_join_and_is_null_in_new_rows(world: World) -> None:
    DeltaTable(folder(world)).alter.add_columns([Field("label", "string")])  # type: ignore[arg-type]
    world.clicks(("c2", "q2"))
    world.join()
    assert labels(world) == {"c1": None, "c2": None}


@pytest.mark.parametrize("name", CHANGES)
def test_a_trace_of_an_event_that_waits_for_it_says_what_to_type(world: World, name: str) -> None:
    CHANGES[name](folder(world))
    world.clicks(("c2", "q2"))
    found = world.trace("c2")
    assert name in found.what_to_do
    assert "ALTER TABLE" in found.what_to_do
    assert "backfill" not in found.what_to_do


@pytest.mark.parametrize("table", ["joined_events", "unjoined"])
@pytest.mark.parametrize("name", CHANGES)
def test_status_names_the_feature_and_what_to_type(world: World, name: str, table: TableName) -> None:
    CHANGES[name](folder(world, table))
    (problem,) = status_of(world.pipeline, "east", world.clock).problems
    assert name in problem
    assert f"ALTER TABLE delta.`{folder(world, table)}`" in problem


def test_a_verification_reads_past_a_constraint_and_notes_it(world: World) -> None:
    constrain(folder(world, "dead_letters"))
    with asking(world):
        scope = open_scope(world.pipeline, ["east"])
    assert ["constraint early" in note for note in scope.notes("east")] == [True]


def test_without_the_check_rows_break_a_constraint_of_their_table(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    constrain(folder(world))
    monkeypatch.setattr("photon.storage.followed_table.check_writable", lambda *_: None)
    world.clicks(("c2", "q2"))
    world.join()
    assert [row["_event_id"] for row in world.rows() if not row["_batch"] < 2] == ["c2"]


@pytest.mark.parametrize(
    ("said", "hours"),
    [
        ("interval 30 days", 720),
        ("INTERVAL 2 weeks", 336),
        ("interval 9 hours", 168),
        ("interval 90 minutes", 168),
        ("for ever", 168),
        (None, 168),
    ],
)
def test_what_left_a_table_is_kept_for_a_week_or_for_as_long_as_a_person_has_set(
    world: World, said: str | None, hours: int
) -> None:
    table = DeltaTable(folder(world))
    if said is not None:
        table.alter.set_table_properties(
            {"delta.deletedFileRetentionDuration": said}, raise_if_not_exists=False
        )
    assert kept_hours(DeltaTable(folder(world)), "deletedFile", least=168) == hours


@pytest.mark.parametrize("is_set", [True, False])
def test_a_compaction_keeps_the_log_for_as_long_as_a_person_has_set(world: World, is_set: bool) -> None:
    if is_set:
        keeps = {"delta.logRetentionDuration": "interval 100 days"}
        DeltaTable(folder(world)).alter.set_table_properties(keeps)
    world.clock.advance((datetime.now(UTC).timestamp() - world.clock.now_us() / 1e6) + 86_400)
    for _ in range(2):  # the first writes the checkpoint before which entries go
        world.clock.advance(3_600)
        compact(world)
    there = (folder(world) / "_delta_log" / f"{0:020d}.json").exists()
    assert there == is_set
