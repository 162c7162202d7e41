"""Objects as well-known services write them are joined, as DuckDB pairs them where it reads them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import duckdb
import obstore
import pytest

from photon.pipeline.location import S3Folder
from photon.read import joined
from photon.storage.s3 import _client
from tests.landing.object_layouts import BEGIN, COUNT, LAYOUTS, Layout, objects
from tests.support.commands import photon


def pipeline_of(layout: Layout, folder: Path, store: str, endpoint: str = "") -> Path:
    """A pipeline whose clicks are landed from a store, beside queries that lie in a file."""
    queries = folder / "logs" / "queries"
    queries.mkdir(parents=True)
    at = round(BEGIN.timestamp())
    lines = (f'{{"query_id": "q{n}", "at": {at + n}}}\n' for n in range(COUNT))
    (queries / "a.jsonl").write_text("".join(lines))
    storage = f"storage: {{endpoint_url: '{endpoint}'}}, " if endpoint else ""
    file = folder / "pipeline.yaml"
    file.write_text(
        "name: landed\ndatacenters:\n"
        f'  east: {{{storage}logs: logs, land: [{{objects: "{store}/{layout.pattern}", into: clicks}}]}}\n'
        "primary: {files: queries/*.jsonl, format: jsonl, id: query_id, time: at}\n"
        f'foreign: {{files: "clicks/**/*.{layout.ending}", {layout.log}}}\n'
    )
    return file


def put(folder: Path, found: Mapping[str, bytes]) -> None:
    for key, data in found.items():
        (folder / key).parent.mkdir(parents=True, exist_ok=True)
        (folder / key).write_bytes(data)


def pairs_of(file: Path) -> list[tuple[str, str]]:
    """Join, and return the id of each joined click with that of its query."""
    done = photon("join", file, "--complete", "--engine", "local")
    assert done.exit_code == 0, done.output
    rows = joined(file).to_table(columns=["_event_id", "primary_query_id"])
    return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@pytest.mark.parametrize("name", LAYOUTS)
def test_objects_of_a_service_are_joined_as_duckdb_pairs_them(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    put(tmp_path / "store", objects(layout))
    pairs = pairs_of(pipeline_of(layout, tmp_path, "store"))
    expected = sorted((f"c{n}", f"q{n}") for n in range(COUNT))
    assert pairs == expected
    if layout.duckdb:
        found = duckdb.sql(layout.duckdb.format(tmp_path / "store" / layout.pattern)).fetchall()
        assert sorted(found) == expected


@pytest.mark.server
def test_objects_of_a_bucket_are_landed_once_whatever_their_keys(on_s3: S3Folder, tmp_path: Path) -> None:
    layout = LAYOUTS["Spark, partitions with an escaped colon"]
    for key, data in objects(layout).items():
        obstore.put(_client(on_s3), key, data)
    file = pipeline_of(layout, tmp_path, str(on_s3), on_s3.endpoint_url or "")
    assert pairs_of(file) == sorted((f"c{n}", f"q{n}") for n in range(COUNT))
    landed = sorted((tmp_path / "logs" / "clicks").glob("**/*.jsonl"))
    assert len(landed) == 4
    obstore.put(_client(on_s3), next(iter(objects(layout))), b"PAR1 cut")
    refused = photon("land", file, "--complete")
    assert refused.exit_code == 3
    assert "can't be read" in refused.output
    assert sorted((tmp_path / "logs" / "clicks").glob("**/*.jsonl")) == landed
