"""The tables that a shift writes beside `joined_events`, as external assets: places and columns."""

from __future__ import annotations

from dagster import AssetSpec, MetadataValue, TableColumn, TableSchema

from photon.storage.columns import TABLE_COLUMNS, TableName
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


def table_schema(name: TableName) -> TableSchema:
    """Photon's own columns of a table; those of the adapter come after them."""
    return TableSchema(
        [TableColumn(field.name, str(field.type), COLUMNS[field.name]) for field in TABLE_COLUMNS[name]]
    )


def table_metadata(served: ServedPipeline, name: TableName) -> dict[str, object]:
    """What Dagster shows of a table: columns, and the place of each datacenter's."""
    places = served.pipeline.datacenters
    return {
        "dagster/table_name": str(name),
        "dagster/column_schema": MetadataValue.table_schema(table_schema(name)),
        **{f"{datacenter}_table": str(places[datacenter].lake / name) for datacenter in served.datacenters},
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
