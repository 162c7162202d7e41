"""The minutes that were judged, as the lake keeps them. Who only reads them imports nothing that judges."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from photon.pipeline.file import Pipeline
from photon.state.view import open_view
from photon.storage.append_table import AppendTable
from photon.storage.delta import LakeUnavailable, is_table
from photon.verification.availability.budget import BUDGET_US, Minute

_TIME = pa.timestamp("us", "UTC")
MINUTES = AppendTable(
    "availability_minutes",
    pa.schema(
        [
            ("minute", _TIME),
            ("joinable", pa.int64()),
            ("readable", pa.int64()),
            ("without_row", pa.int64()),
            ("by_arrival", pa.int64()),
            ("by_commit", pa.int64()),
            ("slowest_us", pa.int64()),
            ("within_us", pa.int64()),  # the settings that it was judged by
            ("of_events", pa.float64()),
            ("is_good", pa.bool_()),
            ("at", _TIME),
            ("run", pa.string()),
        ]
    ),
)


def stored_minutes(pipeline: Pipeline, datacenter: str, since_us: int | None = None) -> dict[int, Minute]:
    """The minutes that were judged, by their beginning: of the budget's 28 days before the last one.

    Of two judgements of a minute, by two at once, the earlier one counts. LakeUnavailable, StateUnavailable,
    FormatTooNew.
    """
    latest = MINUTES.latest(pipeline, datacenter)
    if not latest.num_rows:
        _refuse_a_lake_that_is_away(pipeline, datacenter)
        return {}
    last_us, judged_us = (pc.max(latest[name]).cast(pa.int64()).as_py() for name in ("minute", "at"))
    first_us = last_us - BUDGET_US if since_us is None else since_us
    names = ["minute", "joinable", "readable", "without_row", "by_arrival", "by_commit", "slowest_us"]
    # A minute is judged once it is over, so later files alone have it: a year's are not opened.
    table = MINUTES.between(pipeline, datacenter, first_us, judged_us + 1, [*names, "at"])
    wanted = pc.greater_equal(table["minute"], pa.scalar(first_us, _TIME))
    table = table.filter(wanted).sort_by([("at", "descending")])
    columns = [table["minute"].cast(pa.int64()), *(table[name] for name in names[1:])]
    rows = zip(*(column.to_pylist() for column in columns), strict=True)
    return dict(sorted({row[0]: Minute(*row) for row in rows}.items()))


def _refuse_a_lake_that_is_away(pipeline: Pipeline, datacenter: str) -> None:
    """Without its lake nobody knows which minutes were judged. LakeUnavailable."""
    place = pipeline.datacenters[datacenter]
    with open_view(place.state) as state:
        has_joined = state is not None and (state.completed > 0 or state.follows_an_epoch)
    table = place.lake / "joined_events"
    if has_joined and not is_table(table):
        raise LakeUnavailable(
            f"there is no table {table}, and datacenter {datacenter} has joined: mount the lake or put it "
            "back; if it was given up, nobody can know"
        )
