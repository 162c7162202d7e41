"""Columns of joined rows that people have added to a table, apart from those of Photon and of its adapters.

Photon marks each column that it adds to a table. What has no mark, and no adapter makes, is a person's:
its values are theirs, so that no rebuild takes them away and no verification calls them wrong.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from photon.adapters import RESERVED_COLUMNS

MARK = b"photon.added"


def marked(field: pa.Field) -> pa.Field:
    """A column that is about to be added, as Photon's own."""
    return field.with_metadata({**(field.metadata or {}), MARK: b"true"})


def columns_of_people(schema: pa.Schema, made: Collection[str]) -> list[str]:
    """The columns of a table that are people's; `made`: those that an adapter makes now."""
    return [
        field.name
        for field in schema
        if field.name not in RESERVED_COLUMNS
        and field.name not in made
        and MARK not in (field.metadata or {})
    ]
