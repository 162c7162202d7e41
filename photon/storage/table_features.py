"""Which features of a Delta table Photon keeps, and what to do about the others (protocol E9). Pure.

People change tables with tools of their own. Photon adds whole Parquet files, and reads such files with
pyarrow: it evaluates no expression of a table, finds columns by their names, and skips no row of a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
from deltalake import DeltaTable, Schema

NEWEST_READER, NEWEST_WRITER = 3, 7
# Listed features do no harm by themselves: the columns and properties that use them are judged apart.
READ = frozenset({"timestampNtz", "variantType", "variantType-preview", "columnMapping"})
# A commit without change files is read from its data files, so that a change data feed stays true.
KEPT = READ | {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}
LAST_PLAIN_WRITER = 5  # version 6 promises identity columns, and has no list of features

_NAMES = {
    "columnMapping": "column mapping",
    "deletionVectors": "deletion vectors",
    "typeWidening": "type widening",
    "typeWidening-preview": "type widening",
    "v2Checkpoint": "v2 checkpoints",
    "vacuumProtocolCheck": "the vacuum protocol check",
    "rowTracking": "row tracking",
    "domainMetadata": "domain metadata",
    "clustering": "clustering",
    "identityColumns": "identity columns",
    "allowColumnDefaults": "column defaults",
    "inCommitTimestamp": "in-commit timestamps",
    "icebergCompatV1": "Iceberg compatibility",
    "icebergCompatV2": "Iceberg compatibility",
    "checkpointProtection": "checkpoint protection",
}
# Properties that turn a feature on, with the value that turns it off.
_SWITCHES = {
    "delta.columnMapping.mode": ("columnMapping", "none"),
    "delta.enableDeletionVectors": ("deletionVectors", "false"),
    "delta.enableTypeWidening": ("typeWidening", "false"),
    "delta.checkpointPolicy": ("v2Checkpoint", "classic"),
    "delta.enableRowTracking": ("rowTracking", "false"),
    "delta.enableInCommitTimestamps": ("inCommitTimestamp", "false"),
    "delta.enableIcebergCompatV1": ("icebergCompatV1", "false"),
    "delta.enableIcebergCompatV2": ("icebergCompatV2", "false"),
}
_CONSTRAINT = "delta.constraints."
# With it Delta forgets which batch came last (A3).
_FORGETS_COMMITS = "delta.setTransactionRetentionDuration"
# A key of a column's metadata, and the name of such a column.
_OF_COLUMNS = {
    "delta.generationExpression": "a generated column",
    "delta.identity.start": "an identity column",
    "delta.invariants": "an invariant on column",
    "CURRENT_DEFAULT": "a default of column",
}
_INTERVAL = re.compile(r"(interval )?\s*(?P<number>\d+)\s*(?P<unit>second|minute|hour|day|week)s?")
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 7 * 86_400}
_WITHOUT_HISTORY = "'delta.dropFeatureTruncateHistory.retentionDuration' = 'interval 0 hours'"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column, or a part of one, as the table's log describes it."""

    name: str
    type: str  # for a nested type its kind, such as "struct"
    nullable: bool
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TableDescription:
    """The log's words on a table beside its files."""

    reader: int
    writer: int
    reader_features: frozenset[str]
    writer_features: frozenset[str]
    properties: tuple[tuple[str, str], ...]
    partitions: tuple[str, ...]
    schema: str  # as Delta's log has it; empty: it was not asked for

    @property
    def columns(self) -> tuple[TableColumn, ...]:
        return _columns(self.schema) if self.schema else ()


@dataclass(frozen=True, slots=True)
class Expected:
    """The columns with their types, and the partitions, that one of Photon's tables is to have."""

    columns: tuple[tuple[str, str], ...]
    partitions: tuple[str, ...]


def expected(columns: pa.Schema, partitions: tuple[str, ...] = ()) -> Expected:
    """The description of a table that Photon makes with these columns and partitions."""
    made = _columns(Schema.from_arrow(columns).to_json())
    return Expected(tuple((column.name, column.type) for column in made), partitions)


ANY_COLUMNS = Expected((), ())  # a small table may have any columns


@dataclass(frozen=True, slots=True)
class Unkept:
    """Something of a table that Photon can't keep; `statements` take it out in Spark SQL, `{table}` named."""

    what: str
    statements: tuple[str, ...] = ()
    hides_rows: bool = False  # who does not know it reads other rows, or none


def describe(handle: DeltaTable, with_columns: bool = True) -> TableDescription:
    """The description of a loaded table; reads nothing. Columns hide no rows, and take most of the time."""
    protocol, metadata = handle.protocol(), handle.metadata()
    return TableDescription(
        protocol.min_reader_version,
        protocol.min_writer_version,
        frozenset(protocol.reader_features or ()),
        frozenset(protocol.writer_features or ()),
        tuple(sorted(metadata.configuration.items())),
        tuple(metadata.partition_columns),
        handle.schema().to_json() if with_columns else "",
    )


@lru_cache(maxsize=64)
def _columns(schema_json: str) -> tuple[TableColumn, ...]:
    return tuple(_parts("", json.loads(schema_json)))


def _parts(prefix: str, kind: object) -> Iterator[TableColumn]:
    """The columns in a type of Delta, and what they are made of."""
    if not isinstance(kind, dict):
        return
    for field in kind.get("fields", ()):
        name, of = prefix + field["name"], field["type"]
        yield TableColumn(name, _kind(of), field["nullable"], field["metadata"])
        yield from _parts(f"{name}.", of)
    for part, may_be_null in (("element", "containsNull"), ("key", ""), ("value", "valueContainsNull")):
        if (of := kind.get(f"{part}Type")) is not None:
            yield TableColumn(prefix + part, _kind(of), kind.get(may_be_null, True), {})
            yield from _parts(f"{prefix}{part}.", of)


def _kind(of: Any) -> str:
    return of if isinstance(of, str) else str(of["type"])


@lru_cache(maxsize=64)  # each commit asks, and a table is mostly as it was
def unkept(table: TableDescription, photons: Expected | None = None) -> tuple[Unkept, ...]:
    """The features of a table that a write by Photon would not keep; those that hide rows come first."""
    found = [*_of_protocol(table), *_of_properties(table), *_of_columns(table)]
    if photons is not None:
        found += _of_own(table, photons)
    return tuple(sorted(found, key=lambda one: not one.hides_rows))


def is_append_only(handle: DeltaTable) -> bool:
    """Whether a table takes no row back. Compaction, which keeps all rows, is no matter of it."""
    return handle.metadata().configuration.get("delta.appendOnly", "false").lower() == "true"


def kept_hours(handle: DeltaTable, what: Literal["deletedFile", "log"], least: int = 0) -> int:
    """For how many hours to keep what left a table: as people have set it, and at least `least`."""
    said = handle.metadata().configuration.get(f"delta.{what}RetentionDuration", "")
    if (found := _INTERVAL.fullmatch(said.strip().lower())) is None:
        return least
    return max(least, -(-int(found["number"]) * _SECONDS[found["unit"]] // 3_600))


def _of_protocol(table: TableDescription) -> Iterator[Unkept]:
    if table.reader > NEWEST_READER:
        yield Unkept(f"reader version {table.reader} of Delta", hides_rows=True)
    if table.writer > NEWEST_WRITER or table.writer == LAST_PLAIN_WRITER + 1:
        yield Unkept(f"writer version {table.writer} of Delta")
    to_read = table.reader_features - READ
    # pyarrow's reader refuses the name in this list, even where no column is mapped.
    to_read |= table.reader_features & {"columnMapping"}
    listed = sorted(to_read | (table.writer_features - KEPT))
    for feature in listed:
        if feature == "domainMetadata" and not {"rowTracking", "clustering"}.isdisjoint(listed):
            continue  # row tracking and clustering keep it up to date
        off = [f"'{key}' = '{value}'" for key, (of, value) in _SWITCHES.items() if of == feature]
        yield Unkept(_named(feature), _dropping(feature, off, table), feature in to_read)


def _dropping(feature: str, off: Sequence[str], table: TableDescription) -> tuple[str, ...]:
    """The statements that take a feature out of a table's protocol; none where Delta has no such."""
    drop = f"ALTER TABLE {{table}} DROP FEATURE {feature}"
    if feature in table.reader_features and (off or feature == "vacuumProtocolCheck"):
        # Without its history: else a feature comes for it that protects old checkpoints.
        return f"ALTER TABLE {{table}} SET TBLPROPERTIES ({', '.join([*off, _WITHOUT_HISTORY])})", (
            f"{drop} TRUNCATE HISTORY"
        )
    if feature == "inCommitTimestamp":
        return (drop,)
    if feature == "rowTracking":
        is_shared = "clustering" in table.writer_features
        return (drop,) if is_shared else (drop, "ALTER TABLE {table} DROP FEATURE domainMetadata")
    return ()


def _of_properties(table: TableDescription) -> Iterator[Unkept]:
    properties = dict(table.properties)
    for key, (feature, off) in _SWITCHES.items():
        if properties.get(key, off).lower() == off:
            continue
        hides_rows = feature == "columnMapping"
        is_told = feature in (table.reader_features if hides_rows else table.writer_features)
        if not is_told:
            yield Unkept(
                f"{_NAMES[feature]} ({key})",
                (f"ALTER TABLE {{table}} SET TBLPROPERTIES ('{key}' = '{off}')",),
                hides_rows,
            )
    for key in sorted(key for key in properties if key.startswith(_CONSTRAINT)):
        name = key.removeprefix(_CONSTRAINT)
        yield Unkept(
            f"the CHECK constraint {name} ({properties[key]})",
            (f"ALTER TABLE {{table}} DROP CONSTRAINT {name}",),
        )
    if _FORGETS_COMMITS in properties:
        yield Unkept(
            f"the property {_FORGETS_COMMITS}, by which it forgets what was committed",
            (f"ALTER TABLE {{table}} UNSET TBLPROPERTIES ('{_FORGETS_COMMITS}')",),
        )


def _of_columns(table: TableDescription) -> Iterator[Unkept]:
    for column in table.columns:
        for key, called in _OF_COLUMNS.items():
            if key in column.metadata:
                can_go = key == "delta.generationExpression"
                yield Unkept(f"{called} {column.name}", _dropping_column(column.name) if can_go else ())
        if column.type == "variant":
            yield Unkept(f"column {column.name} of type VARIANT")
        if not column.nullable:
            yield Unkept(
                f"NOT NULL on column {column.name}",
                (f"ALTER TABLE {{table}} ALTER COLUMN {column.name} DROP NOT NULL",),
            )


def _dropping_column(name: str) -> tuple[str, ...]:
    """Delta drops columns only while their names are mapped."""
    mode = "ALTER TABLE {{table}} SET TBLPROPERTIES ('delta.columnMapping.mode' = '{}')"
    return mode.format("name"), f"ALTER TABLE {{table}} DROP COLUMN {name}", mode.format("none")


def _of_own(table: TableDescription, photons: Expected) -> Iterator[Unkept]:
    """Where columns and partitions are not as Photon made them. A column that is not there yet it adds."""
    there = {column.name: column.type for column in table.columns}
    for name, kind in photons.columns:
        if (found := there.get(name, kind)) != kind:
            yield Unkept(f"column {name} of type {found}, which Photon has as {kind}")
    if table.partitions != photons.partitions:
        found, own = (", ".join(columns) or "no column" for columns in (table.partitions, photons.partitions))
        yield Unkept(f"partitions by {found}, not by {own}")


def _named(feature: str) -> str:
    if feature in _NAMES:
        return f"{_NAMES[feature]} (table feature {feature})"
    return f"the table feature {feature}"


def sentences(folder: object, found: Sequence[Unkept], version_before: int | None) -> tuple[str, str]:
    """Name the feature that Photon can't keep, and what to type; `version_before`: the last without it."""
    table = f"delta.`{str(folder).replace('`', '``')}`"
    statements = [each.format(table=table) for each in _once(one.statements for one in found)]
    if all(one.statements for one in found):
        is_late = any(each.endswith("TRUNCATE HISTORY") for each in statements)
        again = " (the last one again after a minute, as long as it asks for that)" if is_late else ""
        remedy = f"take it out in Spark SQL: {'; '.join(statements)}{again}"
    elif version_before is not None:
        remedy = (
            "go back in Spark SQL to the version before it, without what others changed since: "
            "SET spark.databricks.delta.restore.protocolDowngradeAllowed = true; "
            f"RESTORE TABLE {table} TO VERSION AS OF {version_before}"
        )
    else:
        remedy = "no statement takes it out: put the table back from a copy without it"
    unread = "neither reads nor writes it" if any(one.hides_rows for one in found) else "writes nothing to it"
    what = " and ".join(_once([one.what] for one in found))
    return f"the table {folder} has {what}, which Photon can't keep, so that it {unread}", remedy


def _once(groups: Iterable[Sequence[str]]) -> list[str]:
    return list(dict.fromkeys(each for group in groups for each in group))
