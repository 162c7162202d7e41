"""Ten layouts of objects, as well-known services write them: the same clicks in each."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

COUNT = 240  # clicks; each names the query of its number
BEGIN = datetime(2026, 1, 5, 10, tzinfo=UTC)
AT = {"type": "long", "logicalType": "timestamp-micros"}


@dataclass(frozen=True)
class Layout:
    """How a service writes clicks. `log`: the keys of the pipeline file's `foreign` log beside `files`."""

    pattern: str
    log: str
    write: Callable[[list[dict[str, Any]]], bytes]
    key: Callable[[int], str]  # of its objects
    ending: str = "jsonl"
    duckdb: str = (
        ""  # a query for id and query of each click; {0}: the pattern as a path. Empty: it reads none
    )


def clicks() -> Iterator[dict[str, Any]]:
    for n in range(COUNT):
        yield {"click_id": f"c{n}", "query_id": f"q{n}", "at": BEGIN + timedelta(seconds=n), "price": n / 100}


def objects(layout: Layout, per_object: int = 60) -> Mapping[str, bytes]:
    """The objects of a layout by their keys."""
    rows = list(clicks())
    parts = [rows[start : start + per_object] for start in range(0, COUNT, per_object)]
    return {layout.key(n): layout.write(part) for n, part in enumerate(parts)}


def _parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return sink.getvalue()


def _parquet_of_old(rows: list[dict[str, Any]]) -> bytes:
    """As Spark did for years: times of 96 bits without a zone, in UTC."""
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, use_deprecated_int96_timestamps=True)
    return sink.getvalue()


def _avro(fields: Mapping[str, Any], codec: str) -> Callable[[list[dict[str, Any]]], bytes]:
    schema = {"type": "record", "name": "Row", "fields": [{"name": k, "type": v} for k, v in fields.items()]}

    def write(rows: list[dict[str, Any]]) -> bytes:
        sink = io.BytesIO()
        fastavro.writer(sink, schema, rows, codec=codec)
        return sink.getvalue()

    return write


def _envelopes(rows: list[dict[str, Any]]) -> bytes:
    bodies = [{"SequenceNumber": n, "Offset": str(n), "Body": _json([row])} for n, row in enumerate(rows)]
    return _avro({"SequenceNumber": "long", "Offset": "string", "Body": ["null", "bytes"]}, "deflate")(bodies)


def _json(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row | {"at": row["at"].isoformat()}) + "\n" for row in rows).encode()


def _changes(rows: list[dict[str, Any]]) -> bytes:
    changed = [{"op": "c", "before": None, "after": row | {"at": row["at"].isoformat()}} for row in rows]
    return gzip.compress("".join(json.dumps(one) + "\n" for one in changed).encode())


def _csv(rows: list[dict[str, Any]]) -> bytes:
    lines = [f'"{row["click_id"]}","{row["query_id"]}","{row["at"]:%Y-%m-%d %H:%M:%S}.000 Z"' for row in rows]
    return gzip.compress(("CLICK_ID,QUERY_ID,AT\n" + "\n".join(lines)).encode())  # the last line has no end


def _w3c(rows: list[dict[str, Any]]) -> bytes:
    lines = [f"{row['at']:%Y-%m-%d\t%H:%M:%S}\t{row['click_id']}\t{row['query_id']}\n" for row in rows]
    head = "#Version: 1.0\n#Fields: date time x-edge-request-id cs-uri-query\n"
    return gzip.compress((head + "".join(lines)).encode())


def _framed(codec: str) -> Callable[[list[dict[str, Any]]], bytes]:
    """Two frames, one behind the other, as a writer flushes them."""

    def write(rows: list[dict[str, Any]]) -> bytes:
        half = len(rows) // 2
        return b"".join(_packed(_json(part), codec) for part in (rows[:half], rows[half:]))

    return write


def _packed(data: bytes, codec: str) -> bytes:
    if codec == "bz2":
        return bz2.compress(data)
    sink = pa.BufferOutputStream()
    stream = pa.CompressedOutputStream(sink, codec)
    stream.write(data)
    stream.close()
    return bytes(sink.getvalue())


ISO = "id: click_id, key: query_id, time: at, time_unit: iso8601"
OF_PARQUET = "SELECT click_id, query_id FROM read_parquet('{0}')"
OF_JSON = "SELECT click_id, query_id FROM read_json('{0}', format = 'newline_delimited')"

OF_AFTER = "SELECT after.click_id, after.query_id FROM read_json('{0}', format = 'newline_delimited')"
ROW = {"click_id": "string", "query_id": "string", "at": AT, "price": "double"}
OPTIONAL = {"click_id": ["null", "string"], "query_id": ["null", "string"], "at": ["null", AT]}

LAYOUTS = {
    "Firehose, Parquet": Layout(
        "**/*.parquet",
        f"format: jsonl, {ISO}",
        _parquet,
        lambda n: f"2026/01/05/{10 + n}/stream-1-2026-01-05-{10 + n}-00-00-5f3c-{n}.parquet",
        duckdb=OF_PARQUET,
    ),
    "Spark, partitions with an escaped colon": Layout(
        "**/part-*.parquet",
        f"format: jsonl, {ISO}",
        _parquet_of_old,
        lambda n: f"country=d%3Ae/dt=2026-01-0{n + 1}/part-00000-0a1b.c000.snappy.parquet",
        duckdb=OF_PARQUET,
    ),
    "Kafka Connect, Avro": Layout(
        "**/*.avro",
        f"format: jsonl, {ISO}",
        _avro(ROW, "snappy"),
        lambda n: f"topics/clicks/partition={n}/clicks+{n}+00000000{n:02}.avro",
    ),
    "BigQuery, Avro": Layout(
        "export-*.avro", f"format: jsonl, {ISO}", _avro(OPTIONAL, "deflate"), lambda n: f"export-{n:012}.avro"
    ),
    "Event Hubs Capture": Layout(
        "**/*.avro",
        "format: jsonl, id: Body.click_id, key: Body.query_id, time: Body.at, time_unit: iso8601",
        _envelopes,
        lambda n: f"space/hub/{n}/2026/01/05/10/00/00.avro",
    ),
    "Debezium, JSON": Layout(
        "**/*.json.gz",
        "format: jsonl, id: after.click_id, key: after.query_id, time: after.at, time_unit: iso8601",
        _changes,
        lambda n: f"db.public.clicks/{n}.json.gz",
        duckdb=OF_AFTER,
    ),
    "Snowflake, CSV": Layout(
        "data_*.csv.gz",
        "format: csv, id: CLICK_ID, key: QUERY_ID, time: AT, time_format: '%Y-%m-%d %H:%M:%S.%f Z'",
        _csv,
        lambda n: f"data_{n}_0_0.csv.gz",
        "csv",
        "SELECT CLICK_ID, QUERY_ID FROM read_csv('{0}')",
    ),
    "CloudFront": Layout(
        "*.gz",
        "format: tsv, header: [date, time, click, query], comment: '#', id: click, key: query, "
        "time: [date, time], time_unit: iso8601",
        _w3c,
        lambda n: f"E2K.2026-01-05-1{n}.a1b2c3.gz",
        "tsv",
        r"SELECT column2, column3 FROM read_csv('{0}', delim = '\t', skip = 2, header = false)",
    ),
    "Vector, zstd": Layout(
        "date=*/*.log.zst",
        f"format: jsonl, {ISO}",
        _framed("zstd"),
        lambda n: f"date=2026-01-05/17676072{n:02}-uuid.log.zst",
        duckdb=OF_JSON,
    ),
    "Fluentd, lz4": Layout(
        "**/*", f"format: jsonl, {ISO}", _framed("lz4"), lambda n: f"logs/2026{n}/clicks_{n}"
    ),
}
