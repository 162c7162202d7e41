"""People give tables features that Photon can't keep: it says which, and writes nothing past them (E9)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake

from photon.adapters import ROW_COLUMNS
from photon.process.faults import watched
from photon.storage.delta import UnsupportedTable
from photon.storage.output_files import OutputFile, write_rows
from photon.storage.table_features import describe, unkept
from photon.storage.tables import CommitConflict, OutputTable, app_id
from tests.table_changes import change, commit, feature, last_version, map_columns

APP = app_id("east", "e")
Change = Callable[[Path], object]

# Changes that Photon refuses, each under the name that its sentence has to have.
HIDING: dict[str, Change] = {
    "deletion vectors (table feature deletionVectors)": lambda folder: change(
        folder, feature("deletionVectors"), {"delta.enableDeletionVectors": "true"}
    ),
    "column mapping": lambda folder: map_columns(folder, new="label"),
    "column mapping (table feature columnMapping)": lambda folder: change(
        folder,
        {"minReaderVersion": 3, "minWriterVersion": 7}
        | {"readerFeatures": ["columnMapping"], "writerFeatures": ["columnMapping"]},
    ),
    "type widening": lambda folder: change(folder, feature("typeWidening")),
    "v2 checkpoints": lambda folder: change(
        folder, feature("v2Checkpoint"), {"delta.checkpointPolicy": "v2"}
    ),
    "the vacuum protocol check": lambda folder: change(folder, feature("vacuumProtocolCheck")),
    "the table feature teleporting": lambda folder: commit(
        folder,
        [
            {
                "protocol": {"minReaderVersion": 3, "minWriterVersion": 7}
                | {"readerFeatures": ["teleporting"], "writerFeatures": ["teleporting"]}
            }
        ],
    ),
    "reader version 4": lambda folder: commit(
        folder, [{"protocol": {"minReaderVersion": 4, "minWriterVersion": 8}}]
    ),
}
PLAIN_TO_READ: dict[str, Change] = {
    "the CHECK constraint positive (_batch > 0)": lambda folder: DeltaTable(folder).alter.add_constraint(
        {"positive": "_batch > 0"}
    ),
    "a generated column day": lambda folder: change(
        folder,
        feature("generatedColumns"),
        columns=[
            {
                "name": "day",
                "type": "date",
                "metadata": {"delta.generationExpression": "CAST(_event_time AS DATE)"},
            }
        ],
    ),
    "an identity column number": lambda folder: change(
        folder,
        feature("identityColumns"),
        columns=[{"name": "number", "type": "long", "metadata": {"delta.identity.start": 1}}],
    ),
    "a default of column kind": lambda folder: change(
        folder,
        feature("allowColumnDefaults"),
        columns=[{"name": "kind", "type": "string", "metadata": {"CURRENT_DEFAULT": "'a'"}}],
    ),
    "NOT NULL on column owner": lambda folder: DeltaTable(folder).alter.add_columns(
        [Field("owner", "string", nullable=False)]  # type: ignore[arg-type]
    ),
    "NOT NULL on column owner.name": lambda folder: change(
        folder,
        columns=[
            {
                "name": "owner",
                "type": {
                    "type": "struct",
                    "fields": [{"name": "name", "type": "string", "nullable": False, "metadata": {}}],
                },
            }
        ],
    ),
    "an invariant on column _batch": lambda folder: change(
        folder, columns_said={"_batch": {"metadata": {"delta.invariants": '{"expression": "_batch > 0"}'}}}
    ),
    "row tracking (table feature rowTracking)": lambda folder: change(
        folder, feature("rowTracking", "domainMetadata"), {"delta.enableRowTracking": "true"}
    ),
    "row tracking (delta.enableRowTracking)": lambda folder: DeltaTable(folder).alter.set_table_properties(
        {"delta.enableRowTracking": "true"}, raise_if_not_exists=False
    ),
    "clustering": lambda folder: change(folder, feature("clustering", "domainMetadata")),
    "in-commit timestamps": lambda folder: change(
        folder, feature("inCommitTimestamp"), {"delta.enableInCommitTimestamps": "true"}
    ),
    "checkpoint protection": lambda folder: change(folder, feature("checkpointProtection")),
    "the table feature telepathy": lambda folder: change(folder, feature("telepathy")),
    "writer version 8": lambda folder: commit(
        folder, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 8}}]
    ),
    "writer version 6": lambda folder: commit(
        folder, [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 6}}]
    ),
    "delta.setTransactionRetentionDuration": lambda folder: DeltaTable(folder).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 1 days"}, raise_if_not_exists=False
    ),
    "partitions by _datacenter": lambda folder: write_deltalake(
        folder,
        DeltaTable(folder).to_pyarrow_table(),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=["_datacenter"],
    ),
    "column _batch of type string": lambda folder: write_deltalake(
        folder,
        pa.table({"_batch": ["1"], "_event_date": pa.array([0], pa.date32())}),
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=["_event_date"],
    ),
}
KEPT: dict[str, Change] = {
    "appendOnly": lambda folder: DeltaTable(folder).alter.set_table_properties({"delta.appendOnly": "true"}),
    "change data feed": lambda folder: DeltaTable(folder).alter.set_table_properties(
        {"delta.enableChangeDataFeed": "true"}
    ),
    "retention": lambda folder: DeltaTable(folder).alter.set_table_properties(
        {
            "delta.logRetentionDuration": "interval 9 days",
            "delta.deletedFileRetentionDuration": "interval 9 days",
        }
    ),
    "checkpoints": lambda folder: DeltaTable(folder).alter.set_table_properties(
        {"delta.checkpointInterval": "7", "delta.checkpoint.writeStatsAsStruct": "true"}
    ),
    "a property of their own": lambda folder: DeltaTable(folder).alter.set_table_properties(
        {"owner": "us"}, raise_if_not_exists=False
    ),
    "a comment": lambda folder: DeltaTable(folder).alter.set_table_description("ours"),
    "a column": lambda folder: DeltaTable(folder).alter.add_columns([Field("label", "string")]),  # type: ignore[arg-type]
    "a column of times without a zone": lambda folder: DeltaTable(folder).alter.add_columns(
        [Field("local", "timestamp_ntz")]  # type: ignore[arg-type]
    ),
    "features that nothing uses": lambda folder: change(
        folder, feature("checkConstraints", "generatedColumns", "changeDataFeed")
    ),
    "column mapping that is off again": lambda folder: change(
        folder,
        {"minReaderVersion": 2, "minWriterVersion": 7, "writerFeatures": ["columnMapping"]},
        {"delta.columnMapping.mode": "none"},
    ),
    "a constraint that is gone again": lambda folder: (
        DeltaTable(folder).alter.add_constraint({"positive": "_batch > 0"}),
        DeltaTable(folder).alter.drop_constraint("positive"),
    ),
}


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    made = OutputTable(tmp_path, "joined_events")
    made.create("clicks", "east")
    made.commit([written(made, "a")], APP, 1, 0)
    return made


def written(table: OutputTable, event_id: str, batch: int = 1) -> OutputFile:
    plan = {"_datacenter": "east", "_epoch": "e", "_batch": batch, "_plan": "p"}
    row = plan | {"_occurrence": "1:0", "_event_id": event_id}
    return write_rows(table.folder.parent, table.name, batch, pa.Table.from_pylist([row], ROW_COLUMNS))


def folder_of(table: OutputTable) -> Path:
    assert isinstance(table.folder, Path)
    return table.folder


@pytest.mark.parametrize("is_open", [True, False], ids=["while it is open", "before it is opened"])
@pytest.mark.parametrize("feature", [*HIDING, *PLAIN_TO_READ])
def test_nothing_is_committed_past_a_feature_that_photon_cant_keep(
    table: OutputTable, feature: str, is_open: bool
) -> None:
    (HIDING | PLAIN_TO_READ)[feature](folder_of(table))
    version = last_version(folder_of(table))
    found = table if is_open else OutputTable(table.folder.parent, "joined_events")
    with pytest.raises(UnsupportedTable, match=re.escape(feature)) as raised:
        found.commit([written(table, "b", 2)], APP, 2, 1)
    assert str(table.folder) in str(raised.value)
    assert last_version(folder_of(table)) == version


@pytest.mark.parametrize("feature", HIDING)
def test_a_table_is_not_read_past_a_feature_that_hides_rows(table: OutputTable, feature: str) -> None:
    HIDING[feature](folder_of(table))
    with pytest.raises(UnsupportedTable, match=re.escape(feature)):
        OutputTable(table.folder.parent, "joined_events").load()


@pytest.mark.parametrize("feature", [name for name in PLAIN_TO_READ if "_batch of type" not in name])
def test_rows_that_are_there_are_read_where_only_writers_matter(table: OutputTable, feature: str) -> None:
    PLAIN_TO_READ[feature](folder_of(table))
    found = OutputTable(table.folder.parent, "joined_events").load().to_pyarrow_table(columns=["_event_id"])
    assert found["_event_id"].to_pylist() == ["a"]


@pytest.mark.parametrize("kept", KEPT)
def test_what_photon_keeps_stops_nothing(table: OutputTable, kept: str) -> None:
    KEPT[kept](folder_of(table))
    properties = DeltaTable(table.folder).metadata().configuration
    table.create("clicks", "east")
    table.commit([written(table, "b", 2)], APP, 2, 1)
    assert table.version_of(APP) == 2
    now = DeltaTable(table.folder)
    assert sorted(now.to_pyarrow_table(columns=["_event_id"])["_event_id"].to_pylist()) == ["a", "b"]
    assert now.metadata().configuration == properties


@pytest.mark.parametrize(
    "feature",
    [
        "the table feature teleporting",
        "reader version 4",
        "an identity column number",
        "a default of column kind",
        "an invariant on column _batch",
        "clustering",
        "checkpoint protection",
        "writer version 8",
        "partitions by _datacenter",
        "column _batch of type string",
    ],
)
def test_the_sentence_names_the_last_version_without_the_feature(table: OutputTable, feature: str) -> None:
    before = last_version(folder_of(table))
    (HIDING | PLAIN_TO_READ)[feature](folder_of(table))
    with pytest.raises(UnsupportedTable, match=f"TO VERSION AS OF {before}$"):
        OutputTable(table.folder.parent, "joined_events").writable()


@pytest.mark.parametrize(
    ("feature", "statement"),
    [
        ("the CHECK constraint positive (_batch > 0)", "ALTER TABLE delta.`{}` DROP CONSTRAINT positive"),
        ("NOT NULL on column owner", "ALTER TABLE delta.`{}` ALTER COLUMN owner DROP NOT NULL"),
        (
            "column mapping",
            "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.columnMapping.mode' = 'none')",
        ),
        (
            "deletion vectors (table feature deletionVectors)",
            "ALTER TABLE delta.`{}` DROP FEATURE deletionVectors TRUNCATE HISTORY",
        ),
        (
            "row tracking (delta.enableRowTracking)",
            "ALTER TABLE delta.`{}` SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')",
        ),
    ],
)
def test_a_feature_that_can_go_is_told_with_its_statement(
    table: OutputTable, feature: str, statement: str
) -> None:
    (HIDING | PLAIN_TO_READ)[feature](folder_of(table))
    with pytest.raises(UnsupportedTable, match=re.escape(statement.format(table.folder))):
        table.writable()


def test_a_table_goes_on_once_the_feature_is_gone(table: OutputTable) -> None:
    DeltaTable(table.folder).alter.add_constraint({"positive": "_batch > 0"})
    with pytest.raises(UnsupportedTable):
        table.commit([written(table, "b", 2)], APP, 2, 1)
    DeltaTable(table.folder).alter.drop_constraint("positive")
    table.commit([written(table, "b", 2)], APP, 2, 1)
    assert table.version_of(APP) == 2


@pytest.mark.parametrize(
    "feature", ["the CHECK constraint positive (_batch > 0)", "column mapping", "a generated column day"]
)
def test_a_feature_that_comes_at_the_very_moment_of_a_commit_stops_it(
    table: OutputTable, feature: str
) -> None:
    came = list[str]()

    def come(point: str, path: Path | None) -> None:
        if point == "lake.before_commit" and not came:
            came.append(point)
            (HIDING | PLAIN_TO_READ)[feature](folder_of(table))

    with watched(come), pytest.raises(CommitConflict):
        table.commit([written(table, "b", 2)], APP, 2, 1)
    assert came
    with pytest.raises(UnsupportedTable):
        table.commit([written(table, "b", 2)], APP, 2, 1)


def test_side_tables_and_fences_stop_as_well(tmp_path: Path) -> None:
    side = OutputTable(tmp_path, "dead_letters")
    side.create("clicks", "east")
    DeltaTable(side.folder).alter.add_constraint({"positive": "_batch > 0"})
    with pytest.raises(UnsupportedTable, match="positive"):
        side.fence(app_id("east", "e", "dead_letters"))


def test_the_check_of_a_loaded_table_reads_nothing(
    table: OutputTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = table.load()
    for path in folder_of(table).rglob("*"):
        path.unlink() if path.is_file() else None
    assert unkept(describe(handle)) == ()
