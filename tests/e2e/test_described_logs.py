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
    """Describe two logs below `folder` and join them; return the words of `photon init`, and the rows."""
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


def ids_of(told: dict[str, Any]) -> list[list[str]]:
    """The key, the primary id and the foreign id that were found."""
    return [finding["columns"] for finding in told["findings"][:3]]


def test_nested_json_with_integer_and_text_ids(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    requests, errors = [], []
    for number in range(240):
        # Half of the clients count their requests, the others make up texts.
        request_id = 7_000_000 + number if number % 2 else f"req-{chance.getrandbits(40):010x}"
        moment = BEGIN + timedelta(seconds=3 * number)
        requests.append(
            {
                "@timestamp": moment.isoformat().replace("+00:00", "Z"),
                "request": {"id": request_id, "path": f"/a/{number % 7}", "args": [1, "zwei"]},
                "client": {"ip": f"10.1.0.{number % 250}", "geo": {"country": "de"}},
                "took_ms": chance.randrange(900),
            }
        )
        for nth in range(chance.choice([0, 1, 3])):
            errors.append(
                {
                    "error": {"id": f"{chance.getrandbits(64):016x}", "text": "Größe: zu groß"},
                    "request": {"id": request_id}, "level": chance.choice(["warn", "error"]),
                    "at": int(moment.timestamp() * 10**6) + nth, "retry": nth > 0, "code": 500 + nth,
                }
            )  # fmt: skip
    write_json(tmp_path / "logs" / "requests" / "a.jsonl", requests)
    write_json(tmp_path / "logs" / "errors" / "2026" / "a.jsonl", errors)
    told, rows = described_and_joined(tmp_path, "requests", "errors")
    assert ids_of(told) == [["request.id"], ["request.id"], ["error.id"]]
    preview_is_a_row(told, rows)
    same_rows(
        rows,
        f"""
        with f as (select * from read_json('{tmp_path}/logs/errors/**/*.jsonl', columns = {{
                 error: 'json', request: 'json', level: 'varchar', "at": 'bigint', retry: 'boolean',
                 code: 'bigint'}})),
             p as (select * from read_json('{tmp_path}/logs/requests/*.jsonl', columns = {{
                 "@timestamp": 'varchar', request: 'json', client: 'json', took_ms: 'bigint'}}))
        select f.error->>'id' as _event_id, json(f.error)::varchar as error,
               json(f.request)::varchar as request,
               f.level, f."at", f.retry, f.code, p."@timestamp" as "primary_@timestamp",
               json(p.request)::varchar as primary_request, json(p.client)::varchar as primary_client,
               p.took_ms as primary_took_ms
        from f join p on f.request->>'id' = p.request->>'id'
        """,
    )


ZEEK_HEAD = """\
#separator \\x09
#set_separator\t,
#empty_field\t(empty)
#unset_field\t-
#path\t{path}
#open\t2026-01-05-10-00-00
#fields\t{fields}
#types\t{types}
"""
CONN = [
    "ts",
    "uid",
    "id.orig_h",
    "id.orig_p",
    "id.resp_h",
    "id.resp_p",
    "proto",
    "service",
    "duration",
    "orig_bytes",
]
HTTP = [
    "ts",
    "uid",
    "id.orig_h",
    "id.orig_p",
    "trans_depth",
    "method",
    "uri",
    "user_agent",
    "status_code",
    "tags",
]


def write_zeek(path: Path, fields: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    head = ZEEK_HEAD.format(
        path=path.stem, fields="\t".join(fields), types="\t".join(["string"] * len(fields))
    )
    path.write_text(head + "".join("\t".join(row) + "\n" for row in rows) + "#close\t2026-01-05-11-00-00\n")


def test_connections_and_requests_of_zeek_with_its_comment_lines(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    connections, requests = [], []
    for number in range(200):
        uid = "C" + "".join(chance.choices("abcdefghijkmnpqrstuvwxyzABCDEFGHIJKLMNPQRSTUVWXYZ23456789", k=17))
        start_us = int(BEGIN.timestamp()) * 10**6 + number * 700_000 + chance.randrange(10**5)
        port = str(chance.randrange(32_768, 61_000))
        ends = [f"10.2.0.{chance.randrange(250)}", port]
        took = "-" if number % 9 == 0 else f"{chance.random():.6f}"
        start, sent = zeek_time(start_us), str(chance.randrange(10**6))
        connections.append([start, uid, *ends, "10.9.0.1", "80", "tcp", "http", took, sent])
        for depth in range(1, chance.choice([1, 2, 2, 3, 5])):
            agent = chance.choice(["-", 'curl/8 "quoted', "Mozilla/5.0 (X11; Linux)"])
            requests.append(
                [
                    zeek_time(start_us + depth * 5_000), uid, *ends, str(depth), "GET",
                    f"/p/{number % 5}?d={depth}",
                    agent, chance.choice(["200", "404"]), "(empty)",
                ]
            )  # fmt: skip
    write_zeek(tmp_path / "logs" / "conn.log", CONN, connections)
    write_zeek(tmp_path / "logs" / "http.log", HTTP, requests)
    told, rows = described_and_joined(tmp_path, "conn.log", "http.log")
    assert ids_of(told) == [["uid"], ["uid"], ["uid", "trans_depth"]]
    preview_is_a_row(told, rows)
    reader = "delim = '\t', quote = '', comment = '#', header = false, all_varchar = true"
    same_rows(
        rows,
        f"""
        with f as (select * from read_csv('{tmp_path}/logs/http.log', {reader}, names = {list(HTTP)})),
             p as (select * from read_csv('{tmp_path}/logs/conn.log', {reader}, names = {list(CONN)}))
        select length(f.uid) || ':' || f.uid || length(trans_depth) || ':' || trans_depth as _event_id,
               f.ts::double as ts, f.uid, f."id.orig_h", f."id.orig_p"::bigint as "id.orig_p",
               trans_depth::bigint as trans_depth, method, uri, user_agent,
               status_code::bigint as status_code, tags, p.ts::double as primary_ts, p.uid as primary_uid,
               p."id.orig_h" as "primary_id.orig_h", p."id.orig_p"::bigint as "primary_id.orig_p",
               p."id.resp_h" as "primary_id.resp_h", p."id.resp_p"::bigint as "primary_id.resp_p",
               p.proto as primary_proto, p.service as primary_service, p.duration as primary_duration,
               p.orig_bytes::bigint as primary_orig_bytes
        from f join p on f.uid = p.uid
        """,
    )


def zeek_time(us: int) -> str:
    return f"{us // 10**6}.{us % 10**6:06}"
