"""Tables as Dagster shows them: places and columns; and those beside `joined_events` as external assets."""

from __future__ import annotations

import pyarrow as pa
from dagster import AssetSpec, MetadataValue, TableColumn, TableSchema

from assets.described import places, uri_of
from assets.runs import Metadata
from photon.pipeline.location import Location
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.data_files import DataFiles
from photon.storage.tables import OutputTable
from resources.environment import ServedPipeline

DESCRIPTIONS: dict[TableName, str] = {
    "dead_letters": "Lines that are no events, and pairs that the adapter failed on, each with its reason.",
    "unjoined": "Foreign events that were given up, for their primary did not come in time.",
    "too_old": "Foreign events older than the registry keeps ids, which can't be joined exactly once.",
}
# Of the columns that all tables begin with, and those of the side tables.
COLUMNS = {
    "_datacenter": "Who wrote the row.",
    "_epoch": "Of the dispatcher's state that it was written from.",
    "_batch": "The batch that it was committed with.",
    "_plan": "The plan of that batch.",
    "_occurrence": "The foreign record's place: file number and byte offset.",
    "_primary_occurrence": "The primary record's place.",
    "_event_id": "The event that the row is of.",
    "_event_time": "The event's own time.",
    "_joined_at": "When the row was made.",
    "side": "Which log the line is of: primary or foreign.",
    "path": "The log file, below the datacenter's logs.",
    "length_bytes": "The line's length.",
    "reason": "Why it could not be used.",
    "raw": "The line itself, up to a limit.",
    "event_id": "The event's id, where the line has one.",
    "key": "The primary id that the event names.",
    "event_time": "The event's own time.",
    "header": "The header line of its file, of CSV and TSV.",
}


def table_schema(schema: pa.Schema) -> TableSchema:
    """The columns of a table; those of the logs and of the adapter have no description."""
    return TableSchema(
        [TableColumn(field.name, str(field.type), COLUMNS.get(field.name)) for field in schema]
    )


def table_metadata(served: ServedPipeline, name: TableName) -> Metadata:
    """What Dagster shows of a table: Photon's own columns, and the place of each datacenter's."""
    tables = {each: served.pipeline.datacenters[each].lake / name for each in served.datacenters}
    return {
        "dagster/table_name": str(name),
        "dagster/column_schema": MetadataValue.table_schema(table_schema(TABLE_COLUMNS[name])),
        **places(tables, "table"),
    }


def table_now(lake: Location, name: TableName) -> Metadata:
    """What a datacenter's table has now: its rows, and all its columns. LakeUnavailable."""
    table = OutputTable(lake, name)
    with table.reading():
        files = DataFiles(table.load()).all()
        schema = table.schema()
    return {
        "dagster/partition_row_count": sum(file.rows or 0 for file in files),
        "dagster/column_schema": MetadataValue.table_schema(table_schema(schema)),
        "dagster/uri": uri_of(table.folder),
    }


def side_table_assets(served: ServedPipeline) -> list[AssetSpec]:
    """One for each table."""
    logs = [served.asset_key("primary_log"), served.asset_key("foreign_log")]
    return [
        AssetSpec(
            served.asset_key(name),
            deps=logs,
            group_name=served.group_name(),
            kinds={"deltalake"},
            description=f"{description} A shift of joined_events writes it.",
            metadata=table_metadata(served, name),
        )
        for name, description in DESCRIPTIONS.items()
    ]
