"""`photon init` and `photon join` on logs as users have them, compared with an independent join in DuckDB."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.e2e.photon_process import joined_rows, photon, photon_json

JOIN = ("--complete", "--engine", "local")
SEED = 20260105
BEGIN = datetime(2026, 1, 5, 10, tzinfo=UTC)

pytestmark = [pytest.mark.server, pytest.mark.slow]


def described_and_joined(
    folder: Path, primary: str, foreign: str, *said: str
) -> tuple[dict[str, Any], pa.Table]:
    """What `photon init` said of two logs below `folder`, and the rows of the join that it names next."""
    print(f"seed {SEED}, {folder}")
    file = folder / "pipeline.yaml"
    told = photon_json("init", folder / "logs" / primary, folder / "logs" / foreign, "-o", file, *said)
    photon("join", file, *JOIN)
    return told, joined_rows(file)


def write_json(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def same_rows(rows: pa.Table, sql: str, event_id: str = "_event_id") -> None:
    """Hold rows against those of a query, value by value; it has the same columns, and the event's id."""
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    expected = connection.sql(sql).to_arrow_table()
    names = expected.column_names

    def in_order(table: pa.Table) -> list[dict[str, Any]]:
        return sorted(table.select(names).to_pylist(), key=lambda row: str(row[event_id]))

    assert in_order(rows) == in_order(expected)
    assert {name for name in rows.column_names if not name.startswith("_")} == set(names) - {event_id}
    assert len(expected) > 0


def preview_is_a_row(told: dict[str, Any], rows: pa.Table) -> None:
    """Hold the row that `photon init` showed against the table: its columns, their names and their values."""
    columns = [name for name in rows.column_names if not name.startswith("_")]
    example = told["trial"]["example"]
    assert set(example) == set(columns)
    assert example in json.loads(json.dumps(rows.select(columns).to_pylist(), default=str))


def test_a_web_servers_log_as_json_and_what_browsers_reported(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    requests, reports = [], []
    for number in range(300):
        moment = BEGIN + timedelta(seconds=number, milliseconds=chance.randrange(1000))
        request_id = f"{chance.getrandbits(128):032x}"
        requests.append(
            {
                "remote_addr": f"10.0.{chance.randrange(9)}.{chance.randrange(250)}", "remote_user": "-",
                "time_iso8601": moment.isoformat(timespec="milliseconds"),
                "request": f"GET /item/{number % 17} HTTP/1.1",
                "status": chance.choice([200, 200, 304, 404]), "body_bytes_sent": chance.randrange(90_000),
                "request_time": round(chance.random(), 3), "http_user_agent": 'Mozilla/5.0 (X11) "quoted"',
                "request_id": request_id,
            }
        )  # fmt: skip
        for nth in range(chance.choice([0, 1, 1, 2])):
            seen = moment + timedelta(milliseconds=400 * (nth + 1))
            reports.append(
                {
                    "report-id": f"r-{chance.getrandbits(48):012x}", "request_id": request_id,
                    "ts": int(seen.timestamp() * 1000), "Page Load": round(chance.uniform(0.1, 9), 2),
                    "ok": chance.random() < 0.9,
                }
            )  # fmt: skip
    reports += [{**reports[0], "report-id": f"lost-{n}", "request_id": f"{n:032x}"} for n in range(5)]
    write_json(tmp_path / "logs" / "access" / "access.jsonl", requests)
    write_json(tmp_path / "logs" / "reports" / "a.jsonl", [*reports[:200], reports[3], *reports[200:]])
    told, rows = described_and_joined(tmp_path, "access", "reports")
    preview_is_a_row(told, rows)
    same_rows(
        rows,
        f"""
        with f as (select distinct on ("report-id") * from read_json('{tmp_path}/logs/reports/*.jsonl')),
             p as (select * from read_json('{tmp_path}/logs/access/*.jsonl', columns = {{
                 remote_addr: 'varchar', remote_user: 'varchar', time_iso8601: 'varchar', request: 'varchar',
                 status: 'bigint', body_bytes_sent: 'bigint', request_time: 'double',
                 http_user_agent: 'varchar', request_id: 'varchar'}}))
        select f."report-id" as _event_id, f."report-id", f.request_id::varchar as request_id, f.ts,
               f."Page Load" as "Page_Load", f.ok,
               columns(p.*) as 'primary_\\0'
        from f join p on f.request_id::varchar = p.request_id
        """,
    )
