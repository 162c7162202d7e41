"""Tables as Dagster shows them: places and columns; and those beside `joined_events` as external assets."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from dagster import AssetSpec, MetadataValue, TableColumn, TableSchema

from photon.adapters import FOREIGN_PREFIX
from photon.assets.attributes import kinds_of, places, uri_of
from photon.assets.runs import Metadata
from photon.pipeline.file import Pipeline
from photon.process.errors import UserError
from photon.resources.environment import ServedPipeline
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.data_files import DataFiles
from photon.storage.tables import OutputTable

DESCRIPTIONS: dict[TableName, str] = {
    "dead_letters": "Lines that are no events, and pairs that the adapter failed on, each with its reason.",
    "unjoined": "Foreign events that were given up, for their primary did not come in time.",
    "conflicting": "Examples of duplicates that say something else than the record of their id that joined.",
    "too_old": "Foreign events older than the registry keeps ids, which can't be joined exactly once.",
}
MERGES = "photon.adapters:merge_columns"  # Photon's own adapter: its rows have the columns of the logs
# Descriptions of the columns that all tables begin with, and of the side tables' own.
COLUMNS = {
    "_datacenter": "Who wrote the row.",
    "_epoch": "The epoch of the dispatcher that wrote it.",
    "_batch": "The batch that it was committed with.",
    "_plan": "The plan of that batch.",
    "_occurrence": "The foreign record's place: file number and byte offset.",
    "_primary_occurrence": "The primary record's place.",
    "_primary_id": "The primary event's id; null in rows older than the column.",
    "_primary_time": "The primary event's own time; null in rows older than the column.",
    "_event_id": "The event that the row is of.",
    "_event_time": "The event's own time.",
    "_event_date": "The UTC date of that time, by which the table is partitioned.",
    "_joined_at": "When the row was made.",
    "side": "Which log the line is of: primary or foreign.",
    "path": "The log file, below the datacenter's logs.",
    "length_bytes": "The line's length.",
    "offset_bytes": "Where in that file the line begins.",
    "joined_path": "The file of the record of the same id that joined.",
    "joined_offset_bytes": "Where in that file it begins.",
    "differs": "The columns in which both differ.",
    "reason": "Why it could not be used.",
    "raw": "The line itself, up to a limit.",
    "event_id": "The event's id, where the line has one.",
    "key": "The primary id that the event names.",
    "event_time": "The event's own time.",
    "header": "The header line of its file, of CSV and TSV.",
}


def table_schema(schema: pa.Schema, pipeline: Pipeline | None = None) -> TableSchema:
    """The columns of a table. Those of joined events need the pipeline; an adapter may have made them."""
    return TableSchema(
        [TableColumn(field.name, str(field.type), _meaning(field.name, pipeline)) for field in schema]
    )


def _meaning(column: str, pipeline: Pipeline | None) -> str | None:
    if column in COLUMNS or pipeline is None:
        return COLUMNS.get(column)
    if pipeline.adapter != MERGES:
        return f"Of the adapter {pipeline.adapter}."
    prefix = pipeline.primary.prefix
    if column.startswith(prefix):
        return f"{column.removeprefix(prefix)} of the primary event."
    return f"{column.removeprefix(FOREIGN_PREFIX)} of the foreign event."


def table_metadata(served: ServedPipeline, name: TableName) -> Metadata:
    """Columns of Photon's own, and the place of each datacenter's table, as Dagster shows them."""
    tables = {each: served.pipeline.datacenters[each].lake / name for each in served.datacenters}
    return {
        "dagster/table_name": str(name),
        "dagster/column_schema": MetadataValue.table_schema(table_schema(TABLE_COLUMNS[name])),
        "dagster/storage_kind": "deltalake",
        **places(tables, "table"),
    }


def rows_now(pipeline: Pipeline, datacenters: Sequence[str], name: TableName) -> Metadata:
    """The rows of a table of these datacenters together, now; nothing where one can't be read."""
    try:
        tables = [OutputTable(pipeline.datacenters[each].lake, name) for each in datacenters]
        return {"dagster/row_count": sum(_rows_of(table) for table in tables if table.exists())}
    except (UserError, OSError):
        return {}


def joined_now(pipeline: Pipeline, datacenter: str) -> tuple[int, Metadata] | None:
    """A datacenter's rows of joined events now, their columns and place; None where it can't be read."""
    table = OutputTable(pipeline.datacenters[datacenter].lake, "joined_events")
    try:
        with table.reading():
            rows, schema = _rows_of(table), table.schema()
    except (UserError, OSError):
        return None
    columns = MetadataValue.table_schema(table_schema(schema, pipeline))
    return rows, {"dagster/column_schema": columns, "dagster/uri": uri_of(table.folder)}


def _rows_of(table: OutputTable) -> int:
    """LakeUnavailable."""
    with table.reading():
        return sum(file.rows or 0 for file in DataFiles(table.load()).all())


def table_kinds(served: ServedPipeline, *kinds: str) -> set[str]:
    """The kinds of an asset that is a table of each datacenter."""
    lakes = [served.pipeline.datacenters[name].lake for name in served.datacenters]
    return kinds_of(lakes, "deltalake", *kinds)


def side_table_assets(served: ServedPipeline) -> list[AssetSpec]:
    """One for each table. They stand behind `joined_events`, whose shifts write them."""
    return [
        AssetSpec(
            served.asset_key(name),
            deps=[served.asset_key("joined_events")],
            group_name=served.group_name("side_tables"),
            kinds=table_kinds(served),
            description=f"{description} A shift of joined_events writes it.",
            metadata=table_metadata(served, name),
        )
        for name, description in DESCRIPTIONS.items()
    ]
