"""Real logs whose primary ids come again are joined as the written rule says (protocol F14), by DuckDB.

A session is named by its client and port here, as many logs have it: a port is used again after 47 s at the
median, up to eight times.
"""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from xxhash import xxh3_64_intdigest

from tests.e2e.photon_process import joined_rows, photon_json
from tests.e2e.real_logs import FOREIGN_FILE, PRIMARY_FILE, RealLogs, write_pipeline

ID = "orig_hash, orig_port"
FILES = 3  # of each log
WHOLE_MINUTES = "(event_ts::double // 60 * 60)::bigint::varchar"


def lay_out(logs: RealLogs, time: str, folder: Path) -> duckdb.DuckDBPyConnection:
    """Write both logs, with events that name a session by client and port; keep them as tables p and f."""
    database = duckdb.connect()
    for name, file in (("sessions", PRIMARY_FILE), ("events", FOREIGN_FILE)):
        source = database.read_csv(str(logs.folder / file), all_varchar=True, header=True)
        source.select("coalesce(columns(*), '')").create(name)
        database.sql(f"update {name} set event_ts = {time}")
    database.sql("create table p as from sessions")
    database.sql(
        "create table f as select e.*, coalesce(orig_hash, e.key) as orig_hash, coalesce(orig_port, '0') as "
        f"orig_port from events e left join (select key, {ID} from sessions) s on e.key = s.key"
    )
    for part in range(FILES):
        for table, place in (("p", f"ssl/ssl-{part}.csv"), ("f", f"events/all-{part}.csv")):
            file = folder / "logs" / "east" / place
            file.parent.mkdir(parents=True, exist_ok=True)
            lines = database.sql(f"select * from {table} where seq::int % {FILES} = {part} order by seq::int")
            lines.write_csv(str(file), header=True)
    return database


def expected(
    database: duckdb.DuckDBPyConnection, window_seconds: int, folder: Path
) -> tuple[pa.Table, int, int]:
    """The rows by the rule; how many of them had several to choose from; primaries with another one's id."""
    database.sql("create macro us(time) as (time::decimal(20, 6) * 1000000)::bigint")
    # The digest of its line (XXH3) settles which of several at one time joins.
    lines = database.sql(
        "select split_part(line, ',', 1) as seq, line "
        f"from read_csv('{folder}/logs/east/ssl/*.csv', columns = {{line: 'varchar'}}, delim = '\x01', "
        "quote = '', escape = '', header = true)"
    ).to_arrow_table()
    digest = pa.array([xxh3_64_intdigest(line.encode()) for line in lines["line"].to_pylist()], pa.uint64())
    database.register("digests", lines.append_column("digest", digest))
    database.sql(
        f"""
        create table nearest as
        with eligible as (
            select f.event_id, p.seq, digest, us(p.event_ts) - us(f.event_ts) as behind_us
            from f join p using ({ID}) join digests on p.seq = digests.seq
            where abs(us(p.event_ts) - us(f.event_ts)) <= {window_seconds * 10**6}
        )
        select event_id, count(*) as choices, min(row(behind_us > 0, abs(behind_us), digest, seq)) as best
        from eligible group by event_id
        """
    )
    primary = ", ".join(f"p.{name} as primary_{name}" for name in database.table("p").columns)
    rows = database.sql(
        f"select f.*, {primary} from f join nearest using (event_id) join p on p.seq = best[4] "
        "order by event_id"
    ).to_arrow_table()
    [(ambiguous,)] = database.sql("select count(*) from nearest where choices > 1").fetchall()
    [(reused,)] = database.sql(f"select count(*) - count(distinct ({ID})) from p").fetchall()
    return rows, ambiguous, reused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("time", "window_seconds"),
    [("event_ts", 20), (WHOLE_MINUTES, 60)],
    ids=["microseconds", "whole minutes, so that many have one time or are just within the window"],
)
def test_each_row_has_the_primary_that_the_rule_names_and_both_counts_are_right(
    time: str, window_seconds: int, tmp_path: Path
) -> None:
    logs = RealLogs.open_or_make(tmp_path / "made")
    pipeline = write_pipeline(tmp_path, ["east"], f"retry: {{lookup_window: {window_seconds}s}}\n")
    text = pipeline.read_text().replace("  id: key", f"  id: [{ID}]").replace("  key: key", f"  key: [{ID}]")
    pipeline.write_text(text)
    with lay_out(logs, time, tmp_path) as database:
        counts = photon_json("join", pipeline, "--complete", "--engine", "local")["east"]
        rows, ambiguous, reused = expected(database, window_seconds, tmp_path)
    found = joined_rows(pipeline).select(rows.column_names).sort_by("event_id")
    are_equal = found.cast(rows.schema).equals(rows)
    assert are_equal
    assert counts["unjoinable"] == counts["foreign"] - len(rows) >= logs.unjoinable
    assert (counts["ambiguous"], counts["reused_primaries"]) == (ambiguous, reused)
    assert ambiguous > 0
