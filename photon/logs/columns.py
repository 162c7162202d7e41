"""The columns that a user sees: all of them, typed, for the few records that are joined.

Ids, keys and times of all records belong in `parse`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from photon.pipeline import ForeignLog, Limits, PrimaryLog


@dataclass(frozen=True, slots=True)
class ParsedColumns:
    """One row for each line, in order; a line that failed has a row of nulls and a reason."""

    table: pa.Table
    failures: Mapping[int, str]  # row -> reason


def parse_columns(
    raws: Sequence[bytes], header: bytes, log: PrimaryLog | ForeignLog, limits: Limits
) -> ParsedColumns:
    """All columns of the given lines (as in `_raw`), which share one `header` (empty for JSON lines).

    Columns declared in `log.columns` have their type, all others are strings. Of CSV and TSV the
    columns are those of the header; of JSON lines all keys in the order of their first appearance.
    """
    raise NotImplementedError
