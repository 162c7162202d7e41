"""Rows whose own columns were altered: `verify` tells each with its day, and what the text names mends it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from photon.dispatcher.shift.run import run_shift
from photon.pipeline.file import Pipeline
from photon.storage.tables import OutputTable
from photon.upkeep.backfill.rebuild import Rebuild
from photon.upkeep.recovery import RecoveryPlan
from photon.verification.days import Window, utc_day
from photon.verification.report import DatacenterReport
from tests.simulation.rebuilding import HereProgram
from tests.spark import both_engines
from tests.support.csv_pipelines import joined_csv
from tests.support.earlier_rows import earlier_rows

pytestmark = pytest.mark.timeout(900)

ALTERED = {  # the column of each event's row that is altered, and its new value
    "c1": ("_event_time", "CAST('2031-01-01 12:00:00' AS TIMESTAMP)"),
    "c2": ("_primary_occurrence", "'nowhere'"),
    "c3": ("_occurrence", "'nowhere'"),
    "c4": ("_event_id", "'forged'"),
    "c7": ("_primary_id", "'forged'"),
    "c8": ("_primary_time", "CAST('2031-01-01 12:00:00' AS TIMESTAMP)"),
    "c9": ("_primary_id", "NULL"),  # as in a row that is older than the column: nothing is wrong
}
DIFFER, ASTRAY = "different_values", "row_without_event"


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    numbers = range(1, 10)
    logs = {
        "q.csv": "q,at,text\n" + "".join(f"q{n},100,text {n}\n" for n in numbers),
        "c.csv": "c,q,at,v\n" + "".join(f"c{n},q{n},10{n},z\n" for n in numbers),
    }
    return joined_csv(tmp_path, logs)


def rows(pipeline: Pipeline) -> dict[str, dict[str, Any]]:
    table = OutputTable(pipeline.datacenters["east"].lake, "joined_events").load()
    return {row["_event_id"]: row for row in table.to_pyarrow_table().to_pylist()}


def verify(pipeline: Pipeline, session: Any, window: Window | None = None) -> DatacenterReport:
    return both_engines.verify(pipeline, ["east"], session=session, window=window).datacenters["east"]


def test_each_altered_row_is_told_with_its_day_and_mended_by_what_the_text_names(
    pipeline: Pipeline, perhaps_session: Any
) -> None:
    before = rows(pipeline)
    table = OutputTable(pipeline.datacenters["east"].lake, "joined_events")
    for event, (column, value) in ALTERED.items():
        table.load().update({column: value}, predicate=f"_event_id = '{event}'")
    found = verify(pipeline, perhaps_session)
    told = {(one.kind, e.event_id): e for one in found.findings for e in one.examples}
    assert told.keys() == {
        (DIFFER, "c1"),
        (DIFFER, "c2"),
        (DIFFER, "c7"),
        (DIFFER, "c8"),
        (ASTRAY, "c3"),
        (ASTRAY, "forged"),
        ("missing", "c4"),
    }
    assert told[DIFFER, "c1"].where.startswith("row of 2031-01-01, batch ")
    assert told[DIFFER, "c1"].detail.startswith("_event_time is 2031-01-01 12:00:00")
    assert told[DIFFER, "c7"].detail == "_primary_id is 'forged', its record has 'q7'"
    assert told[DIFFER, "c8"].detail.startswith("_primary_time is 2031-01-01 12:00:00")
    of_its_day = verify(pipeline, perhaps_session, utc_day(date(1970, 1, 1)))
    assert {(one.kind, e.event_id) for one in of_its_day.findings for e in one.examples} == told.keys()
    assert (of_its_day.rows, of_its_day.rows_not_compared) == (found.rows - 1, found.rows_not_compared)
    for one in found.findings:
        rebuild_of_day = f"backfill PIPELINE -d DATACENTER --day {one.day} --rebuild"
        assert f"photon {'recover' if one.kind == 'missing' else rebuild_of_day}" in one.remedy

    days = {e.where[7:17] for (kind, _), e in told.items() if kind in (DIFFER, ASTRAY)}
    assert days == {"1970-01-01", "2031-01-01"}
    for day in days:
        Rebuild(pipeline, "east", utc_day(date.fromisoformat(day)), HereProgram()).apply()
    RecoveryPlan(pipeline, {"east": found.as_dict()}).apply()
    run_shift(pipeline, "east", "until_idle")
    after = rows(pipeline)
    assert after.keys() == before.keys()
    assert {event for event, row in after.items() if row != before[event]} == {"c4"}  # joined again
    mended = verify(pipeline, perhaps_session)
    assert not mended.findings, mended.as_dict()

    # Nothing tells what these were; at least nobody says that such rows are right.
    for event, column, value in (("c5", "_epoch", "'forged'"), ("c6", "_batch", "99")):
        table.load().update({column: value}, predicate=f"_event_id = '{event}'")
    assert verify(pipeline, perhaps_session).rows_not_compared == 2


def test_rows_that_are_older_than_columns_of_their_primary_are_right(
    tmp_path: Path, perhaps_session: Any
) -> None:
    with earlier_rows():
        made = joined_csv(tmp_path, {"q.csv": "q,at\nq1,100\n", "c.csv": "c,q,at\nc1,q1,101\n"})
    found = verify(made, perhaps_session)
    assert (found.rows, found.rows_not_compared, list(found.findings)) == (1, 0, [])
    with (tmp_path / "logs/east/c.csv").open("a") as log:
        log.write("c2,q1,102\n")
    run_shift(made, "east", "until_idle")
    of_primaries = [(row["_primary_id"], row["_primary_time"]) for _, row in sorted(rows(made).items())]
    assert of_primaries == [(None, None), ("q1", datetime(1970, 1, 1, 0, 1, 40, tzinfo=UTC))]
    found = verify(made, perhaps_session)
    assert (found.rows, found.rows_not_compared, list(found.findings)) == (2, 0, [])
