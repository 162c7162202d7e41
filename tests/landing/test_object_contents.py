"""The names of landed objects, and the lines that become of what services write into them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from photon.landing.objects.contents import ObjectBroken, write_lines
from photon.landing.objects.names import file_name, partition_values
from photon.logs.discovery import GlobbedPaths
from photon.logs.formats.times import TimeStyle, event_time_us

ID = UUID("470f7949-ae5f-4eee-bd56-80100b9b12cb")
NOON = datetime(2026, 1, 5, 12, 0, 0, 123456, UTC)


def landed(folder: Path, data: bytes, ending: str = "jsonl", **constant: str) -> bytes:
    path, sink = folder / "object", io.BytesIO()
    path.write_bytes(data)
    write_lines(path, ending, constant, sink)
    return sink.getvalue()


def compressed(data: bytes, codec: str) -> bytes:
    if codec in ("gzip", "bz2"):
        return gzip.compress(data) if codec == "gzip" else bz2.compress(data)
    sink = pa.BufferOutputStream()
    stream = pa.CompressedOutputStream(sink, codec)
    stream.write(data)
    stream.close()
    return bytes(sink.getvalue())


# -- names

ODD_KEYS = [
    *("a", "a/b", "a//b", "/a", "a/", ".a", "..", "../a", "a/../b", "%2Ea", "a@b", "a%40b", "a\nb", "ä/ö"),
    *("x" * 300, "x" * 299 + "y", "ü" * 200, "dt=2026-01-01 00%3A00/a", "a\\b", "*", "[a]", "{b}", " a "),
]


def test_objects_of_any_keys_and_versions_have_files_of_their_own_that_the_pattern_finds() -> None:
    etags = ('"abc"', "abc-2", 'W/"abc"', "a/b", "CJ+v=")
    names = [file_name(key, etag, "jsonl") for key in ODD_KEYS for etag in etags]
    assert len(set(names)) == len(names)
    pattern = GlobbedPaths("clicks/**/*.jsonl")
    for name in names:
        assert pattern.match(f"clicks/{name}")
        assert all(0 < len(part.encode()) < 250 and part not in (".", "..") for part in name.split("/"))


def test_folders_of_partitions_are_columns() -> None:
    key = "dt=2026-01-01/at=2026-01-01 00%3A00/country=__HIVE_DEFAULT_PARTITION__/=x/a=b.parquet"
    assert partition_values(key) == {"dt": "2026-01-01", "at": "2026-01-01 00:00"}


# -- Parquet

VALUES = {
    "text": (pa.array(['a "b"\n', None]), ['a "b"\n', None]),
    "long": (pa.array([2**63 - 1, -(2**63)]), [2**63 - 1, -(2**63)]),
    "unsigned": (pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
    "number": (pa.array([0.1, math.nan]), [0.1, "NaN"]),
    "infinite": (pa.array([math.inf, -math.inf], pa.float32()), ["Infinity", "-Infinity"]),
    "decimal": (pa.array([Decimal("1.10"), Decimal("-0.01")]), ["1.10", "-0.01"]),
    "seconds": (
        pa.array([1_767_614_400, None], pa.timestamp("ms", "UTC")),
        ["1970-01-21T11:00:14.400Z", None],
    ),
    "micro": (pa.array([NOON, NOON]), ["2026-01-05T12:00:00.123456Z"] * 2),
    "nano": (
        pa.array([1, 2], pa.timestamp("ns")),
        ["1970-01-01T00:00:00.000000001", "1970-01-01T00:00:00.000000002"],
    ),
    "berlin": (pa.array([0, 0], pa.timestamp("s", "Europe/Berlin")), ["1970-01-01T00:00:00.000Z"] * 2),
    "day": (pa.array([date(2026, 1, 5)] * 2), ["2026-01-05"] * 2),
    "uuid": (pa.array([ID.bytes, None], pa.uuid()), [str(ID), None]),
    "bytes": (pa.array([b"\xff\x00", b'{"a": 1}']), ["/wA=", {"a": 1}]),
    "nested": (
        pa.array([{"a": [1, None], "b": {"c": "x"}}, None]),
        [{"a": [1, None], "b": {"c": "x"}}, None],
    ),
    "kind": (pa.array(["x", "y"]).dictionary_encode(), ["x", "y"]),
}


@pytest.mark.parametrize("name", VALUES)
def test_a_value_of_parquet_keeps_all_that_it_says(tmp_path: Path, name: str) -> None:
    column, expected = VALUES[name]
    sink = io.BytesIO()
    pq.write_table(pa.table({name: column}), sink)
    read = [json.loads(line).get(name) for line in landed(tmp_path, sink.getvalue()).splitlines()]
    assert read == expected


def test_times_of_parquet_are_read_as_iso8601(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"at": pa.array([NOON])}), sink)
    [line] = landed(tmp_path, sink.getvalue()).splitlines()
    us = event_time_us(json.loads(line)["at"], TimeStyle(unit="iso8601"))
    assert us == round(NOON.timestamp() * 1_000_000)


def test_a_time_as_spark_writes_it_has_its_zone(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"at": pa.array([NOON])}), sink, use_deprecated_int96_timestamps=True)
    assert json.loads(landed(tmp_path, sink.getvalue())) == {"at": "2026-01-05T12:00:00.123456000Z"}


def test_a_column_of_folders_stands_beside_those_of_rows_that_lack_it(tmp_path: Path) -> None:
    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1], "dt": ["own"]}), sink)
    [line] = landed(tmp_path, sink.getvalue(), dt="folder", country="DE").splitlines()
    assert json.loads(line) == {"a": 1, "dt": "own", "country": "DE"}


# -- Avro


def avro(fields: list[dict[str, Any]], *records: dict[str, Any], codec: str = "deflate") -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "Row", "fields": fields}, records, codec=codec)
    return sink.getvalue()


AVRO_VALUES: dict[str, tuple[Any, Any, Any]] = {
    "long": ("long", 2**63 - 1, 2**63 - 1),
    "union": (["null", "string"], "x", "x"),
    "time": ({"type": "long", "logicalType": "timestamp-micros"}, NOON, "2026-01-05T12:00:00.123456Z"),
    "local": (
        {"type": "long", "logicalType": "local-timestamp-millis"},
        datetime(2026, 1, 5, 12),
        "2026-01-05T12:00:00",
    ),
    "decimal": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        Decimal("1.10"),
        "1.10",
    ),
    "uuid": ({"type": "string", "logicalType": "uuid"}, ID, str(ID)),
    "number": ("double", math.nan, "NaN"),
    "body": ("bytes", b'{"click_id": "c1",\n "n": 1}', {"click_id": "c1", "n": 1}),
    "bytes": ("bytes", b"\xff", "/w=="),
    "map": ({"type": "map", "values": "int"}, {"a": 1}, {"a": 1}),
}


@pytest.mark.parametrize("name", AVRO_VALUES)
def test_a_value_of_avro_keeps_all_that_it_says(tmp_path: Path, name: str) -> None:
    kind, value, expected = AVRO_VALUES[name]
    [line] = landed(tmp_path, avro([{"name": name, "type": kind}], {name: value})).splitlines()
    assert json.loads(line)[name] == expected


# -- text

CODECS = ("gzip", "bz2", "zstd", "lz4")


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_text_is_landed_as_it_is_and_its_last_line_ends(tmp_path: Path, codec: str) -> None:
    frames = compressed(b"a\r\nb", codec) + compressed(b"b\nc", codec)  # as appended by its writer
    assert landed(tmp_path, frames, "log") == b"a\r\nbb\nc\n"


@pytest.mark.parametrize("codec", CODECS)
def test_text_that_is_cut_is_broken(tmp_path: Path, codec: str) -> None:
    with pytest.raises(ObjectBroken, match="can't be read: Truncated"):
        landed(tmp_path, compressed(b"a\nb\n" * 99, codec)[:-3], "log")


@pytest.mark.parametrize("header", [b"id,at", b"PARENT_ID,at", b"ORCID,time of day"])
def test_plain_text_is_landed_as_it_is(tmp_path: Path, header: bytes) -> None:
    assert landed(tmp_path, header + b"\r\n1,2\n", "csv") == header + b"\r\n1,2\n"


# -- what is broken

ROWS = avro([{"name": "n", "type": "long"}], *({"n": n} for n in range(9)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PAR1", "can't be read"),
        (b"PAR1" + b"\0" * 99, "can't be read"),
        (ROWS[:-4], "can't be read"),
        (ROWS[:40], "can't be read"),
        (ROWS[:-20] + b"\xff\xff\xff" + ROWS[-17:], "can't be read"),
        (b"ORC\x01", "is ORC, which is not read"),
        (b"PK\x03\x04", "is zip, which is not read"),
        (b"\x28\xb5\x2f\xfd junk", "can't be read"),
    ],
)
def test_what_is_wrong_with_an_object_is_told(tmp_path: Path, data: bytes, reason: str) -> None:
    with pytest.raises(ObjectBroken, match=reason):
        landed(tmp_path, data)


def test_rows_are_refused_where_the_log_is_no_json(tmp_path: Path) -> None:
    with pytest.raises(ObjectBroken, match="expected a log with format: jsonl"):
        landed(tmp_path, ROWS, "csv")
