"""`photon land` and `photon join` of a folder of objects, as people type them."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from photon.landing.marker import ASIDE
from photon.landing.objects.marker import read_marker
from photon.landing.service import LOCK
from photon.process.operating_system import held_alone
from photon.read import joined
from tests.support.commands import photon

PIPELINE = """\
name: landed
datacenters:
  east:
    logs: logs
    land:
      - {objects: "store/queries/*.parquet", into: queries}
      - {objects: "store/clicks/*.parquet", into: clicks}
primary: {files: "queries/**/*.jsonl", format: jsonl, id: click_id, time: at, time_unit: iso8601}
foreign: {files: "clicks/**/*.jsonl", format: jsonl, id: click_id, key: click_id, time: at,
  time_unit: iso8601}
"""


def rows(*numbers: int) -> bytes:
    """An object with a row of each number."""
    sink = io.BytesIO()
    at = pa.array(numbers, pa.timestamp("s", "UTC"))
    pq.write_table(pa.table({"click_id": [f"c{n}" for n in numbers], "at": at}), sink)
    return sink.getvalue()


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    """Two folders of objects, and the pipeline whose logs they become."""
    for log in ("queries", "clicks"):
        (tmp_path / "store" / log).mkdir(parents=True)
        (tmp_path / "store" / log / "a.parquet").write_bytes(rows(1, 2))
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE)
    return file


def test_a_complete_join_lands_what_is_there_first(pipeline: Path) -> None:
    done = photon("join", pipeline, "--complete", "--engine", "local")
    assert done.exit_code == 0, done.output
    marker = read_marker(pipeline.parent / "logs" / "clicks")
    assert marker is not None
    assert (marker.landed, marker.waiting) == (1, 0)
    assert joined(pipeline).count_rows() == 2


def test_a_broken_object_holds_a_complete_join_until_it_is_acknowledged(pipeline: Path) -> None:
    (pipeline.parent / "store" / "clicks" / "b.parquet").write_bytes(b"PAR1")
    for command in ("land", "join"):
        refused = photon(
            command, pipeline, "--complete", *(["--engine", "local"] if command == "join" else [])
        )
        assert refused.exit_code == 3
        assert "b.parquet can't be read" in refused.output
    status = photon("status", pipeline)
    assert "b.parquet can't be read" in status.output
    assert "1 object landed, none waits, 1 object can't be landed" in status.output
    acknowledged = photon("acknowledge", pipeline, "east")
    assert "b.parquet can't be read" in acknowledged.output
    assert photon("land", pipeline, "--complete").exit_code == 0
    assert "b.parquet" not in photon("status", pipeline).output


def test_failures_are_acknowledged_where_their_list_was_removed(pipeline: Path) -> None:
    (pipeline.parent / "store" / "clicks" / "b.parquet").write_bytes(b"PAR1")
    photon("land", pipeline, "--complete")
    (list_of_all,) = pipeline.parent.glob("logs/clicks/.photon/objects.db")
    list_of_all.unlink()
    assert "b.parquet can't be read" in photon("acknowledge", pipeline, "east").output


def test_all_failures_are_acknowledged_however_many_the_marker_names(
    pipeline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("photon.landing.objects.lander", "photon.upkeep.acknowledged_topics"):
        monkeypatch.setattr(f"{module}.MOST_NAMED", 1)
    for n in range(3):
        (pipeline.parent / "store" / "clicks" / f"x{n}.parquet").write_bytes(b"PAR1")
    assert photon("land", pipeline, "--complete").exit_code == 3
    acknowledged = photon("acknowledge", pipeline, "east")
    assert "objects store/clicks/*.parquet: 2 more" in acknowledged.output
    assert photon("land", pipeline, "--complete").exit_code == 0


def test_of_two_landers_the_second_is_refused(pipeline: Path) -> None:
    with held_alone(_lock_of(pipeline)):
        refused = photon("land", pipeline)
    assert refused.exit_code == 3
    assert "lands into it already" in refused.output


def test_a_folder_that_is_not_there_is_told(pipeline: Path) -> None:
    shutil.rmtree(pipeline.parent / "store" / "clicks")
    refused = photon("land", pipeline, "--complete")
    assert refused.exit_code == 3
    assert "store/clicks: expected a folder with objects to land" in refused.output


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("clicks/**/*.jsonl", "clicks/*.jsonl", 'expected a log with files: "clicks/**/*.jsonl"'),
        ("store/clicks/*.parquet", "store/clicks", "a pattern of a folder or of a bucket"),
        ("store/clicks/*.parquet", "ftp://store/*", "a pattern of a folder or of a bucket"),
        ("store/clicks/*.parquet", "**/*.jsonl", "a folder that does not hold the logs"),
        ("store/clicks/*.parquet", "logs/clicks/*.parquet", "a folder that does not hold the logs"),
        ("into: clicks", "into: clicks, kafka: {servers: a, topic: b}", "expected either kafka or objects"),
    ],
)
def test_a_pipeline_file_that_can_not_be_meant_is_refused(
    pipeline: Path, before: str, after: str, expected: str
) -> None:
    pipeline.write_text(pipeline.read_text().replace(before, after))
    refused = photon("land", pipeline, "--complete")
    assert refused.exit_code == 2
    assert expected in refused.output


def _lock_of(pipeline: Path) -> Path:
    return pipeline.parent / "logs" / "clicks" / ASIDE / LOCK
