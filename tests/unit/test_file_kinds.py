"""Files without lines of text are known by their first bytes, and where landing reads them it is named."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from photon.logs.file_kinds import no_text
from tests.support.commands import photon

ROWS = [{"click_id": f"c{n}", "at": 1_767_607_200 + n} for n in range(50)]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
AVRO = {
    "type": "record",
    "name": "click",
    "fields": [{"name": "click_id", "type": "string"}, {"name": "at", "type": "long"}],
}


def parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(ROWS), sink)
    return sink.getvalue()


def avro() -> bytes:
    sink = io.BytesIO()
    fastavro.writer(sink, AVRO, ROWS)
    return sink.getvalue()


def packed(codec: str) -> Callable[[], bytes]:
    def write() -> bytes:
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, codec) as text:
            text.write(TEXT)
        return bytes(sink.getvalue())

    return write


@pytest.mark.parametrize(
    ("write", "kind"),
    [
        (parquet, "is Parquet"),
        (avro, "is Avro"),
        (packed("zstd"), "is compressed by zstd"),
        (packed("bz2"), "is compressed by bzip2"),
        (packed("lz4"), "is compressed by lz4"),
    ],
)
def test_init_on_objects_leads_to_landing(tmp_path: Path, write: Callable[[], bytes], kind: str) -> None:
    (tmp_path / "queries.jsonl").write_bytes(TEXT)
    (tmp_path / "clicks").write_bytes(write())
    done = photon("init", tmp_path / "queries.jsonl", tmp_path / "clicks", "-o", tmp_path / "pipeline.yaml")
    assert done.exit_code == 2
    for said in (kind, "below the key land of a pipeline file", "docs/objects.md", "run photon land"):
        assert said in done.stderr


@pytest.mark.parametrize("text", [b"PAR1,PAR2\n1,2\n", b"BZh,at\n1,2\n", b"Object,at\n1,2\n"])
def test_text_that_begins_as_such_a_file_does_is_text(text: bytes) -> None:
    assert no_text(text) is None


def test_what_landing_does_not_read_is_to_be_decompressed() -> None:
    odd = no_text(b"PK\x03\x04 and so on")
    assert odd is not None
    assert odd.remedy == "decompress it, or compress it by gzip"
