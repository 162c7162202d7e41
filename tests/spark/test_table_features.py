"""Features that people turn on in Spark SQL stop a commit, and the message's statements end that (E9)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from photon.storage.delta import UnsupportedTable
from photon.storage.tables import OutputTable
from tests.support.output_tables import APP, ids_in, new_table, written

pytestmark = [pytest.mark.spark, pytest.mark.slow]
MOST_MINUTES = 3
ASKS_FOR_A_MINUTE = (
    "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD",
    "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST",
)
PROPERTIES = "ALTER TABLE {} SET TBLPROPERTIES"
# Each statement by which a person turns a feature on, and the name in the message.
TURNED_ON = {
    "column mapping (delta.columnMapping.mode)": [
        PROPERTIES + " ('delta.columnMapping.mode' = 'name')",
        "ALTER TABLE {} ADD COLUMN label STRING",
    ],
    "the CHECK constraint early (_batch < 9)": ["ALTER TABLE {} ADD CONSTRAINT early CHECK (_batch < 9)"],
    "row tracking (table feature rowTracking)": [PROPERTIES + " ('delta.enableRowTracking' = 'true')"],
    "in-commit timestamps (table feature inCommitTimestamp)": [
        PROPERTIES + " ('delta.enableInCommitTimestamps' = 'true')"
    ],
    "type widening (table feature typeWidening)": [
        PROPERTIES + " ('delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {} ADD COLUMN seen INT",
        "UPDATE {} SET seen = 7",
        "ALTER TABLE {} ALTER COLUMN seen TYPE BIGINT",
    ],
    "deletion vectors (table feature deletionVectors)": [
        PROPERTIES + " ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM {} WHERE _event_id = 'none'",
    ],
    "the vacuum protocol check": [PROPERTIES + " ('delta.feature.vacuumProtocolCheck' = 'supported')"],
    "a default of column kind": [
        "ALTER TABLE {} ADD COLUMN kind STRING",
        PROPERTIES + " ('delta.feature.allowColumnDefaults' = 'supported')",
        "ALTER TABLE {} ALTER COLUMN kind SET DEFAULT 'a'",
    ],
    "column extra of type VARIANT": ["ALTER TABLE {} ADD COLUMN extra VARIANT"],
    "checkpoint protection": [
        PROPERTIES + " ('delta.enableDeletionVectors' = 'true')",
        "DELETE FROM {} WHERE _event_id = 'a'",
        PROPERTIES + " ('delta.enableDeletionVectors' = 'false')",
        "ALTER TABLE {} DROP FEATURE deletionVectors",
    ],
}

QUICK = ("column mapping (delta.columnMapping.mode)", "a default of column kind")


@pytest.fixture
def table(tmp_path: Path) -> OutputTable:
    made = new_table(tmp_path)
    made.commit([written(made, 1, "a", "b")], APP, 1, 0)
    return made


def type_in(session: Any, statement: str) -> None:
    """Run a statement; again after a minute, for as long as Delta asks for that."""
    for waited in range(MOST_MINUTES + 1):
        try:
            session.sql(statement)
        except Exception as error:
            if waited == MOST_MINUTES or not any(code in str(error) for code in ASKS_FOR_A_MINUTE):
                raise
            time.sleep(61)  # Delta goes by the times of its files
        else:
            return


@pytest.mark.parametrize(
    "feature",
    [each if each in QUICK else pytest.param(each, marks=pytest.mark.long) for each in TURNED_ON],
)
def test_what_the_message_says_ends_what_a_person_has_turned_on(
    session: Any, table: OutputTable, feature: str
) -> None:
    table_id = table.table_id()
    for statement in TURNED_ON[feature]:
        session.sql(statement.format(f"delta.`{table.folder}`"))
    version = DeltaTable(table.folder).version()
    with pytest.raises(UnsupportedTable) as raised:
        table.commit([written(table, 2, "c")], APP, 2, 1)
    assert feature in str(raised.value)
    assert DeltaTable(table.folder).version() == version
    for statement in raised.value.remedy.partition(": ")[2].partition(" (the last")[0].split("; "):
        type_in(session, statement)
    table.commit([written(table, 2, "c")], APP, 2, 1)
    assert (table.table_id(), table.version_of(APP), ids_in(table)) == (table_id, 2, ["a", "b", "c"])


@pytest.mark.parametrize("kind", ["GENERATED ALWAYS AS (_batch + 1)", "GENERATED ALWAYS AS IDENTITY"])
def test_a_table_that_a_person_has_made_with_columns_that_delta_fills_is_not_written(
    session: Any, tmp_path: Path, kind: str
) -> None:
    table = OutputTable(tmp_path, "joined_events")
    session.sql(f"CREATE TABLE delta.`{table.folder}` (_batch BIGINT, number BIGINT {kind}) USING delta")
    with pytest.raises(UnsupportedTable, match="column number"):
        table.create("clicks", "east")
