"""The lines of an object: rows of Parquet and Avro as JSON, text as it is. Its first bytes tell what it is.

Nothing is held whole: a row group of Parquet is read by pages, Avro by its blocks, text by pieces.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from photon.landing.lines import line_of
from photon.logs.file_kinds import AVRO, LZ4, PARQUET, XZ, ZIP, ZSTD
from photon.process.errors import UserError
from photon.process.extras import need_extra
from photon.storage.json_lines import lines_of, values

ROWS_AT_ONCE = 1_024  # each of some MiB at most, as `limits.line` says
READ_AT_ONCE_BYTES = 2**20
JSON_LINES = "jsonl"
_COMPRESSED = {b"\x1f\x8b": "gzip", ZSTD: "zstd", b"BZh": "bz2", LZ4: "lz4"}
_NOT_READ = {
    b"ORC": "ORC",
    b"PARE": "encrypted Parquet",
    XZ: "xz",
    ZIP: "zip",
    b"\xff\x06\0\0sNaPpY": "snappy",
}
_WORDS = re.compile(rb"(?:ORC|PARE)[\t\r\n -~]*")  # text, such as a header that begins with ORCID or PARENT
_ENCODER = msgspec.json.Encoder()


class ObjectBroken(Exception):
    """An object can't be read; the reason in words that follow its name."""


def write_lines(path: Path, ending: str, constant: Mapping[str, str], sink: BinaryIO) -> None:
    """Write the lines of the object that lies at `path`. ObjectBroken, ExtraMissing, OSError of the disk.

    `constant`: values of all rows of Parquet and Avro. `ending`: of the file, which says its format.
    """
    try:
        for data in _lines(path, ending, constant):
            sink.write(data)
    except (UserError, ObjectBroken):
        raise
    except Exception as error:  # of libraries, about bytes that anybody may have written: any
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk; Arrow's errors of compressed bytes have no number
        raise ObjectBroken(f"can't be read: {error or type(error).__name__}") from None


def _lines(path: Path, ending: str, constant: Mapping[str, str]) -> Iterator[bytes]:
    with path.open("rb") as file:
        head = file.read(16)
    if _WORDS.fullmatch(head):
        return _of_text(path, None)
    for magic, kind in _NOT_READ.items():
        if head.startswith(magic):
            raise ObjectBroken(f"is {kind}, which is not read")
    if head.startswith((PARQUET, AVRO)):
        kind = "Parquet" if head.startswith(PARQUET) else "Avro"
        if ending != JSON_LINES:
            raise ObjectBroken(f"is {kind}, whose rows become JSON lines: expected a log with format: jsonl")
        return _of_parquet(path, constant) if kind == "Parquet" else _of_avro(path, constant)
    codec = next((codec for magic, codec in _COMPRESSED.items() if head.startswith(magic)), None)
    return _of_text(path, codec)


def _of_text(path: Path, codec: str | None) -> Iterator[bytes]:
    last = b"\n"
    with (
        pa.OSFile(str(path)) as file,
        closing(pa.CompressedInputStream(file, codec) if codec else file) as text,
    ):
        while data := text.read(READ_AT_ONCE_BYTES):
            last = data[-1:]
            yield data
    if last != b"\n":  # a reader would wait for the end of the line
        yield b"\n"


def _of_parquet(path: Path, constant: Mapping[str, str]) -> Iterator[bytes]:
    with pq.ParquetFile(path, memory_map=True, pre_buffer=False, arrow_extensions_enabled=True) as file:
        leaves = (file.schema.column(at) for at in range(len(file.schema)))
        instants = {one.path for one in leaves if one.physical_type == "INT96"}  # Spark's, in UTC
        for batch in file.iter_batches(ROWS_AT_ONCE, use_threads=False):
            some = {name: batch.column(name) for name in batch.schema.names}
            some |= {name: some[name].cast(pa.timestamp("ns", "UTC")) for name in instants & some.keys()}
            columns = {name: _values(column) for name, column in some.items()}
            for name in constant.keys() - columns.keys():
                columns[name] = [constant[name]] * batch.num_rows
            yield lines_of(columns)


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; times have all of their digits, and a zone only where they have one."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        texts = column.cast(pa.timestamp(kind.unit, "UTC" if kind.tz else None)).cast(pa.string())
        return list(pc.replace_substring(texts, " ", "T").to_pylist())
    if isinstance(kind, pa.UuidType):
        return list(column.to_pylist())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [_plain(one) for one in column.to_pylist()]
    return values(column)


def _of_avro(path: Path, constant: Mapping[str, str]) -> Iterator[bytes]:
    need_extra("objects")
    import fastavro

    with path.open("rb") as file:
        records = iter(fastavro.reader(file))
        while some := list(islice(records, ROWS_AT_ONCE)):
            yield _ENCODER.encode_lines([constant | _plain(one) for one in some])


def _plain(value: Any) -> Any:
    """A value as JSON can have it. Bytes that are a JSON object, such as an event, are that object."""
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes) and value[:1] == b"{" and not (line := line_of(value)).is_odd:
        return msgspec.Raw(line.text.strip())
    return value
