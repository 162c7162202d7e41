"""A table of PostgreSQL that a follower made and relies on: compared before each step. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

# A column that PostgreSQL has in each table, so that none of a log can have its name.
SYSTEM_COLUMNS = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")


@dataclass(frozen=True)
class MadeTable:
    """The table as the transaction left it that moved the cursor.

    `row` is the key of one of its rows, as text; None: it had none. A table that somebody truncated, or put
    back to another time, lacks it. To count all rows at each step would take seconds.
    """

    columns: Mapping[str, str]  # their types, by name
    key: tuple[str, ...]
    row: tuple[str, ...] | None = None

    def why_changed(
        self, columns: Mapping[str, str], key: tuple[str, ...], has_row: Callable[[], bool]
    ) -> str:
        """How the table is another one now; empty: it is as it was. Columns may have come."""
        for name, kind in self.columns.items():
            if name not in columns:
                return f"has no column {name!r} any more"
            if columns[name] != kind:
                return f"has {columns[name]} in column {name!r}, which was {kind}"
        if key != self.key:
            return f"has the key ({', '.join(key)}), which was ({', '.join(self.key)})"
        if not has_row():
            return f"lacks the row ({', '.join(self.row or ())}), which was there"
        return ""

    def encoded(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def decoded(cls, text: str) -> MadeTable:
        """The inverse of `encoded`. ValueError, KeyError, TypeError."""
        found = json.loads(text)
        row = found["row"]
        return cls(found["columns"], tuple(found["key"]), None if row is None else tuple(row))
