"""A conversion counts for an impression if it came within a day; all others are filtered."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from photon.adapters import Adapted, Adapter

DAY_SECONDS = 86_400.0


class WithinADay(Adapter):
    """Works on whole tables: row i of `foreign` belongs to row i of `primary`."""

    def combine(self, foreign: pa.Table, primary: pa.Table) -> Adapted:
        """A row of what matters for each conversion within a day of its impression."""
        after = pc.subtract(foreign["at"], primary["shown"])
        kept = pc.and_(pc.greater_equal(after, 0.0), pc.less_equal(after, DAY_SECONDS)).combine_chunks()
        rows = pa.table(
            {
                "campaign": primary["campaign"],
                "hours_after": pc.divide(after, 3600.0),
                "profit": pc.subtract(foreign["value"], primary["price"]),
            }
        )
        return Adapted(rows.filter(kept), kept)
