"""Kept results of verification count alike in a lake on this machine and in one on S3."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.location import Location, S3Folder
from photon.process.errors import FormatTooNew
from photon.storage.changes import Commit
from photon.storage.store import ObjectStore, store_of
from photon.verification import kept
from photon.verification.kept import (
    KeptFile,
    KeptManifest,
    kept_folder,
    new_folder,
    next_number,
    read_kept,
    run_in,
    store_kept,
)
from photon.verification.spool import Spool

PIPELINE = """
name: clicks
datacenters: {east: {logs: logs/east, lake: "LAKE"STORAGE}}
primary: {files: "q*.csv", format: csv, id: id, time: at}
foreign: {files: "c*.csv", format: csv, id: id, key: key, time: at}
"""


@pytest.fixture
def pipeline(folder: Location, tmp_path: Path) -> Pipeline:
    """Load a pipeline with its lake in that folder."""
    endpoint = folder.endpoint_url if isinstance(folder, S3Folder) else None
    storage = f", storage: {{endpoint_url: {endpoint}}}" if endpoint else ""
    (tmp_path / "pipeline.yaml").write_text(PIPELINE.replace("LAKE", str(folder)).replace("STORAGE", storage))
    return load_pipeline(tmp_path / "pipeline.yaml")


def stored(pipeline: Pipeline, before: KeptManifest | None = None) -> KeptManifest:
    number = next_number(pipeline, "east")
    folder = new_folder(pipeline, "east", number)
    rows = store_of(folder / "settled")
    rows.make()
    rows.put("part.parquet", lambda sink: sink.write(b"rows"))
    rows.put("_SUCCESS", lambda sink: None)
    runs = (*(before.runs if before else ()), run_in(folder, number, 1_000 * number))
    file, commits = KeptFile(100, 1, 120, 5), {"east/joined_events": Commit(7, "digest")}
    done = KeptManifest("print", runs, {3: file}, commits, {"1:7": 4})
    store_kept(pipeline, "east", done)
    return done


def store_with_kept(pipeline: Pipeline) -> ObjectStore:
    return store_of(kept_folder(pipeline, "east"))


def test_what_was_stored_last_is_read_as_it_was(pipeline: Pipeline) -> None:
    assert read_kept(pipeline, "east") is None
    second = stored(pipeline, stored(pipeline))
    assert read_kept(pipeline, "east") == second
    assert (second.number, second.begun_us) == (2, 1_000)
    assert [list(run.files.items()) for run in second.runs] == [[("settled/part.parquet", 4)]] * 2


def test_results_whose_files_are_not_whole_do_not_count(pipeline: Pipeline) -> None:
    first = stored(pipeline)
    second = stored(pipeline, first)
    store_with_kept(pipeline).put(f"{second.runs[-1].folder}/settled/part.parquet", lambda sink: None)
    assert read_kept(pipeline, "east") == first
    assert next_number(pipeline, "east") == 3  # above the damaged run, so that the next is the newest


def test_of_a_newer_photon_nothing_is_read(pipeline: Pipeline) -> None:
    stored(pipeline)
    store = store_with_kept(pipeline)
    (manifest,) = store.names("kept-")
    newer = store.read(manifest).replace(b'"format": 1', b'"format": 2')
    store.put(manifest, lambda sink: sink.write(newer))
    with pytest.raises(FormatTooNew):
        read_kept(pipeline, "east")


def test_runs_that_count_no_more_go_after_a_day(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    first = stored(pipeline)
    stored(pipeline)  # all was read again
    store = store_with_kept(pipeline)
    assert any(name.startswith(first.runs[0].folder) for name in store.sizes())
    monkeypatch.setattr(kept, "REMOVED_AFTER_SECONDS", -60)
    third = stored(pipeline)
    runs = {name.partition("/")[0] for name in store.sizes() if "/" in name}
    assert runs == {third.runs[0].folder}
    assert read_kept(pipeline, "east") == third
    assert len(list(store.names("kept-"))) == 1


# -- rows for tasks


def test_rows_for_tasks_elsewhere_lie_in_the_lake_until_the_verification_ends(pipeline: Pipeline) -> None:
    rows, store = pa.table({"offset": [1, 2]}), store_with_kept(pipeline)
    spool = Spool(pipeline, in_lakes=True)
    path = spool.path_of("east", rows)
    assert spool.path_of("east", rows) == path, "written twice"
    (name,) = (name for name in store.sizes() if name.endswith(".parquet"))
    assert path == str(kept_folder(pipeline, "east") / name.partition("/")[0] / name.partition("/")[2])
    assert pq.read_table(store.open(name)) == rows
    spool.close()
    assert not any(name.endswith(".parquet") for name in store.sizes())


def test_rows_for_tasks_here_lie_in_no_lake(pipeline: Pipeline) -> None:
    rows = pa.table({"offset": [1, 2]})
    spool = Spool(pipeline, in_lakes=False)
    path = Path(spool.path_of("east", rows))
    assert pq.read_table(path) == rows
    assert not any(name.endswith(".parquet") for name in store_with_kept(pipeline).sizes())
    spool.close()
    assert not path.exists()


def test_rows_that_a_killed_verification_left_go_with_what_is_kept_no_more(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    Spool(pipeline, in_lakes=True).path_of("east", pa.table({"offset": [1]}))
    monkeypatch.setattr(kept, "REMOVED_AFTER_SECONDS", -60)
    stored(pipeline)
    names = [name for name in store_with_kept(pipeline).sizes() if name.endswith(".parquet")]
    assert [name.partition("/")[2] for name in names] == ["settled/part.parquet"]
