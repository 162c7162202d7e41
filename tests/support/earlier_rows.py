"""Joins as they were before rows named their primary events: without `_primary_id` and `_primary_time`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from photon.adapters import ROW_COLUMNS
from photon.storage.columns import TABLE_COLUMNS

NEW = ("_primary_id", "_primary_time")
EARLIER_COLUMNS = pa.schema([field for field in ROW_COLUMNS if field.name not in NEW])


@contextmanager
def earlier_rows() -> Iterator[None]:
    """Have tables made, and rows joined, without these columns."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("photon.join.records.ROW_COLUMNS", EARLIER_COLUMNS)
        patched.setitem(TABLE_COLUMNS, "joined_events", EARLIER_COLUMNS)
        for module in ("output_files", "tables"):
            patched.setattr(f"photon.storage.{module}.stats_columns", lambda table: ("_epoch", "_batch"))
        yield
