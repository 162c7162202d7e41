"""A commit names only files that are there as a task has written them (protocol A10, F12)."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pyarrow as pa
import pytest

from photon.adapters import ROW_COLUMNS
from photon.process.faults import watched
from photon.storage.columns import TABLE_COLUMNS, fit
from photon.storage.delta import LakeUnavailable
from photon.storage.output_files import OutputFile, write_rows
from photon.storage.own_columns import SchemaConflict, columns_to_add
from photon.storage.tables import FENCE_VERSION, NOT_BEGUN, CommitConflict, LastCommit, OutputTable, app_id
from photon.storage.tokens import Occurrence, PlanKey, Token

APP = app_id("east", "e")
ENGINE = ("photon", "jobs", "resources", "assets", "orchestration")


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    made = OutputTable(tmp_path, "joined_events")
    made.create("clicks", "east")
    return made


def written(table: OutputTable, event_id: str) -> OutputFile:
    plan = {"_datacenter": "east", "_epoch": "e", "_batch": 1, "_plan": "p"}
    row = plan | {"_occurrence": "1:0", "_event_id": event_id}
    return write_rows(table.folder.parent, table.name, 1, pa.Table.from_pylist([row], ROW_COLUMNS))


def ids_in(table: OutputTable) -> list[str]:
    return list(table.load().to_pyarrow_table(columns=["_event_id"])["_event_id"].to_pylist())


def test_a_file_that_no_result_names_is_not_in_the_table(table: OutputTable) -> None:
    written(table, "of a killed attempt")
    table.commit([written(table, "of the attempt that ended")], APP, 1, 0)
    assert ids_in(table) == ["of the attempt that ended"]


@pytest.mark.parametrize("harm", ["gone", "cut short"])
def test_a_file_that_is_not_as_the_task_wrote_it_is_not_committed(table: OutputTable, harm: str) -> None:
    sound, harmed = written(table, "a"), written(table, "b")
    path = table.folder / harmed.path
    path.unlink() if harm == "gone" else path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(LakeUnavailable, match=harmed.path):
        table.commit([sound, harmed], APP, 1, 0)
    assert table.version_of(APP) == 0
    assert ids_in(table) == []


def test_a_commit_that_was_cut_short_is_named_in_one_line(table: OutputTable) -> None:
    table.commit([written(table, "a")], APP, 1, 0)
    last = max((table.folder / "_delta_log").glob("*.json"))
    last.write_text('{"commitInfo')
    with pytest.raises(LakeUnavailable, match="cannot read the table") as raised:
        OutputTable(table.folder.parent, "joined_events").load()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("meanwhile", ["it is fenced", "its next batch is committed"])
def test_an_app_is_fenced_whatever_others_commit_at_the_same_moment(
    table: OutputTable, meanwhile: str
) -> None:
    table.commit([], APP, 1, 0)
    came = list[str]()

    def commit_first(point: str, path: Path | None) -> None:
        if point == "lake.before_commit" and not came:
            came.append(point)
            other = OutputTable(table.folder.parent, "joined_events")
            other.fence(APP) if meanwhile == "it is fenced" else other.commit([], APP, 2, 1)

    with watched(commit_first):
        table.fence(APP)
    assert came
    assert table.version_of(APP) == FENCE_VERSION + (1 if meanwhile == "it is fenced" else 2)


def test_files_that_spell_a_new_column_differently_are_to_be_written_again_as_the_table_does(
    table: OutputTable,
) -> None:
    def with_column(name: str) -> OutputFile:
        rows = pa.Table.from_pylist([{"_epoch": "e", "_batch": 1}], ROW_COLUMNS)
        return write_rows(table.folder.parent, table.name, 1, rows.append_column(name, pa.array(["x"])))

    with pytest.raises(CommitConflict, match="the column 'country' is 'Country' there"):
        table.commit([with_column("Country"), with_column("country")], APP, 1, 0)
    assert table.schema().names[-1] == "Country"
    again = fit(pa.table({"country": ["x"]}), table.schema()).column_names
    assert again == ["Country"]
    table.commit([with_column("Country"), with_column("Country")], APP, 1, 0)
    assert table.load().to_pyarrow_table()["Country"].to_pylist() == ["x", "x"]


def test_a_column_of_another_type_is_named_with_the_type_that_was_expected_and_what_to_do() -> None:
    there, new = pa.schema([("price", pa.int64())]), pa.schema([("price", pa.string())])
    told = "column 'price' of east: expected int64, new rows have string; have the adapter give int64"
    with pytest.raises(SchemaConflict, match=told):
        columns_to_add(there, [new], "east")


def test_a_commit_names_the_plan_of_its_app_and_of_no_other(table: OutputTable) -> None:
    assert table.last_commit(APP) == NOT_BEGUN
    table.commit([], APP, 1, 0, "first")
    table.commit([], APP, 2, 1, "second")
    for batch in range(1, 20):
        table.commit([], app_id("west", "e"), batch, batch - 1, "theirs")
    assert table.last_commit(APP) == LastCommit(2, "second")


def test_an_epoch_commits_nothing_to_a_table_that_lacks_its_batch_0(table: OutputTable) -> None:
    with pytest.raises(CommitConflict, match="it was put back"):
        table.commit([], APP, 1, 0, passed=0)
    table.commit([], APP, 0, 0)
    table.commit([], APP, 1, 0, passed=0)


def test_a_token_of_another_plan_has_no_row_though_its_batch_and_occurrence_have_one(
    table: OutputTable,
) -> None:
    table.commit([written(table, "a")], APP, 1, 0, "p")
    own, others = (Token(PlanKey("east", "e", 1, plan_id), Occurrence(1, 0)) for plan_id in "pq")
    assert table.row_status_of([own, others]) == {own: "row", others: "no row"}


def test_a_row_of_an_earlier_plan_that_came_after_the_look_is_left_alone_on_the_handle_that_commits(
    tmp_path: Path,
) -> None:
    letters = OutputTable(tmp_path, "dead_letters")
    letters.create("clicks", "east")

    def letter(batch: int, plan_id: str) -> None:
        named = {"_epoch": "e", "_batch": batch, "_plan": plan_id, "_occurrence": "1:0"}
        rows = pa.Table.from_pylist([named], TABLE_COLUMNS["dead_letters"])
        file, plan = write_rows(tmp_path, "dead_letters", batch, rows), PlanKey("east", "e", batch, plan_id)
        letters.commit_missing([file], "east", plan, [(1, "p")])

    letter(1, "p")
    letter(2, "q")
    assert letters.load().to_pyarrow_table()["_plan"].to_pylist() == ["p"]


def test_only_the_dispatcher_commits_rows_and_claims_ids() -> None:
    root = Path(__file__).parents[2]
    calls: dict[str, set[str]] = defaultdict(set)
    for source in (path for room in ENGINE for path in (root / room).rglob("*.py")):
        for node in ast.walk(ast.parse(source.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).split(".")[-1]
                calls[name].add(str(source.relative_to(root)))
    of_rows = {"photon/dispatcher/committing.py"}
    of_primaries = {"photon/unmatched/run.py"}  # rows of a table of their own: no ids are claimed for them
    batch_0 = {"photon/dispatcher/startup.py"}  # of an epoch
    of_a_list = {f"photon/landing/objects/{name}.py" for name in ("known", "lander")}  # SQLite's
    assert calls["commit"] == of_rows | batch_0 | of_primaries | of_a_list
    assert calls["ClaimingRounds"] == calls["BatchCloses"] == {"photon/dispatcher/batch_tools.py"}
    assert calls["commit_batch"] == calls["commit_empty"] == {"photon/dispatcher/batch.py"}
    # A rebuild replaces rows by rows of the same ids, and registers none (E3).
    replacing = {"photon/storage/replacing.py"}
    reports = {"photon/storage/append_table.py"}  # writes reports, not rows
    of_reports = reports | {"photon/storage/leaving_rows.py"}
    assert calls["create_write_transaction"] == {"photon/storage/delta.py"} | replacing | of_reports
    trial = {"photon/storage/library_trial.py"}  # on a table of its own
    assert calls["commit_files"] == {"photon/storage/tables.py"} | trial
    assert calls["replace_files"] == {"photon/upkeep/backfill/rebuild.py", "photon/storage/compaction.py"}
    assert calls["append_rows"] == reports | {"photon/upkeep/backfill/removed_rows.py"}
    assert not calls["write_deltalake"]  # this function panics at some paths
    assert calls["Joiner"] == {"photon/join/tasks.py"}
    assert calls["BatchExecution"] == {"photon/dispatcher/dispatcher.py"}
    assert calls["BatchTools"] == {"photon/dispatcher/shift/run.py"}
