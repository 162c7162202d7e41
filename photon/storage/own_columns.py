"""Columns that are added to a table: by Photon, for new rows that have them, or by people.

Photon marks each column that it adds. A column without the mark, which no adapter makes either, belongs to
people: no rebuild takes its values away, and no verification calls them wrong.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa

from photon.adapters import FOREIGN_PREFIX, OWN_COLUMNS, is_reserved, same_column

MARK = b"photon.added"


class SchemaConflict(Exception):
    """Rows whose types differ from those of the table's columns."""


def columns_to_add(there: pa.Schema, rows: Iterable[pa.Schema], table: object) -> tuple[list[pa.Field], str]:
    """New rows' columns that a table lacks, marked; and words for the first name that it spells differently.

    `table` names it in errors. SchemaConflict if types differ.
    """
    known = {same_column(field.name): field for field in there}
    new: list[pa.Field] = []
    respelled = ""
    for field in (field for schema in rows for field in schema):
        before = known.get(same_column(field.name))
        if before is None:
            known[same_column(field.name)] = field
            new.append(marked(pa.field(field.name, field.type, nullable=True)))
        elif before.type != field.type:
            raise SchemaConflict(
                f"column {field.name!r} of {table}: expected {before.type}, new rows have {field.type}; have "
                f"the adapter give {before.type}, or give its column another name"
            )
        elif before.name != field.name:
            respelled = respelled or f"{field.name!r} is {before.name!r} there"
    return new, respelled


def stored_elsewhere(new: Iterable[pa.Field]) -> Iterator[str]:
    """Name the columns that are stored under another name than in the log, which Photon uses itself."""
    for field in new:
        name = field.name.removeprefix(FOREIGN_PREFIX)
        if name != field.name and is_reserved(name):
            yield f"the log's column {name} is stored as {field.name}: Photon has one of that name"


def marked(field: pa.Field) -> pa.Field:
    """A column with the mark, to be added by Photon."""
    return field.with_metadata({**(field.metadata or {}), MARK: b"true"})


def columns_of_people(schema: pa.Schema, made: Collection[str]) -> list[str]:
    """The columns of a table that people added. `made`: those that an adapter makes now."""
    return [
        field.name
        for field in schema
        if field.name not in OWN_COLUMNS and field.name not in made and MARK not in (field.metadata or {})
    ]
