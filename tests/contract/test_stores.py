"""A folder on this machine and one on S3 keep the same promises (`photon.storage.store`)."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from infra.servers.minio import CREDENTIALS, PASSWORD
from photon.pipeline.location import Location, S3Folder
from photon.storage import s3
from photon.storage.s3 import S3Store
from photon.storage.store import store_of
from tests.conftest import BUCKET


def put(folder: Location, name: str, content: bytes = b"content") -> int:
    def write(sink: BinaryIO) -> None:
        sink.write(content)

    store = store_of(folder)
    store.make()
    return store.create(name, write)


def test_what_was_created_is_read_back_whole_and_in_part(folder: Location) -> None:
    assert put(folder, "a", b"0123456789") == 10
    store = store_of(folder)
    assert store.read("a") == b"0123456789"
    assert store.read("a", 3) == b"3456789"
    assert store.read("a", 3, 5) == b"34"
    assert store.size_bytes("a") == 10


def test_an_object_that_is_there_is_not_replaced(folder: Location) -> None:
    put(folder, "a", b"first")
    with pytest.raises(FileExistsError):
        put(folder, "a", b"second")
    assert store_of(folder).read("a") == b"first"


def test_a_writer_that_dies_takes_nothing_from_another_who_puts_the_same(
    folder: Location,
) -> None:
    """Broken variant: both write under one name, and who ends puts what the other has begun there."""
    store = store_of(folder)
    store.make()

    def dies(sink: BinaryIO) -> None:
        raise RuntimeError

    def meets_another(sink: BinaryIO) -> None:
        sink.write(b"who")
        with ThreadPoolExecutor(1) as other:
            assert isinstance(other.submit(store.put, "a", dies).exception(), RuntimeError)
        sink.write(b"le")

    store.put("a", meets_another)
    assert store.read("a") == b"whole"


def test_what_is_put_takes_the_place_of_what_was_there_whole(folder: Location) -> None:
    store = store_of(folder)
    store.make()

    def backwards(sink: BinaryIO) -> None:
        sink.seek(5)
        sink.write(b"56789")
        sink.seek(0)
        sink.write(b"01234")

    def dies(sink: BinaryIO) -> None:
        sink.write(b"half")
        raise RuntimeError

    put(folder, "a", b"first, and longer")
    store.put("a", backwards)
    with pytest.raises(RuntimeError):
        store.put("a", dies)
    assert store.read("a") == b"0123456789"


def test_what_is_not_there_has_no_size_and_is_not_read(folder: Location) -> None:
    store = store_of(folder)
    assert store.size_bytes("a") is None
    with pytest.raises(FileNotFoundError):
        store.read("a")
    with pytest.raises(FileNotFoundError):
        store.open("a")


def test_names_are_those_of_the_folder_that_begin_so(folder: Location) -> None:
    for name in ("batch-1-a", "batch-1-b", "batch-10-a", "batch-2-a", "a"):
        put(folder, name)
    put(folder / "batch-1-c", "deeper")
    store = store_of(folder)
    assert sorted(store.names("batch-1-")) == ["batch-1-a", "batch-1-b"]
    assert list(store.names("a")) == ["a"]
    assert set(store.names()) == {"a", "batch-1-a", "batch-1-b", "batch-10-a", "batch-2-a"}
    assert list(store_of(folder / "nowhere").names("b")) == []


def test_a_folder_is_known_by_the_sizes_of_all_that_is_below_it_and_goes_as_a_whole(folder: Location) -> None:
    put(folder, "a", b"1")
    put(folder / "b" / "c", "d", b"22")
    put(folder / "bb", "e", b"333")
    store = store_of(folder)
    assert store.sizes() == {"a": 1, "b/c/d": 2, "bb/e": 3}
    for _ in range(2):
        store.remove_folder("b")
    assert store.sizes() == {"a": 1, "bb/e": 3}
    assert store_of(folder / "nowhere").sizes() == {}


def test_what_is_removed_is_gone_and_may_be_removed_again(folder: Location) -> None:
    put(folder, "a")
    for _ in range(2):
        store_of(folder).remove("a")
    assert store_of(folder).size_bytes("a") is None


@pytest.mark.parametrize("rows", [10, 300_000])  # read at once, and in parts
def test_a_parquet_file_is_read_by_its_columns(folder: Location, rows: int) -> None:
    table = pa.table({"number": range(rows), "text": [f"text of {number * 7919}" for number in range(rows)]})
    store = store_of(folder)
    store.make()
    store.create("a.parquet", lambda sink: pq.write_table(table, sink))
    assert (store.size_bytes("a.parquet") or 0) > s3.READ_WHOLE_BYTES or rows == 10
    assert pq.read_table(store.open("a.parquet"), columns=["number"]) == table.select(["number"])
    assert pq.read_metadata(store.open("a.parquet")).num_rows == rows


def test_an_object_may_be_empty(folder: Location) -> None:
    put(folder, "a", b"")
    assert store_of(folder).size_bytes("a") == 0
    assert store_of(folder).open("a").read() == b""


def test_what_names_a_lake_on_s3_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    s3.forget_clients()
    store = S3Store(S3Folder(BUCKET, "lake"))
    assert store.is_durable
    assert store.delta_options["aws_secret_access_key"] == PASSWORD
    assert PASSWORD.encode() not in pickle.dumps(store)


def test_an_object_is_swapped_for_the_version_that_was_read_alone(on_s3: S3Folder) -> None:
    store = store_of(on_s3)
    store.swap("a", b"first", "")
    with pytest.raises(FileExistsError):
        store.swap("a", b"another first", "")
    data, version = store.read_version("a")
    store.swap("a", b"second", version)
    with pytest.raises(FileExistsError):
        store.swap("a", b"another second", version)
    assert (data, store.read("a")) == (b"first", b"second")


def test_a_swapped_object_is_read_back(folder: Location) -> None:
    store = store_of(folder)
    store.make()
    store.swap("a", b"first", "")
    data, version = store.read_version("a")
    store.swap("a", b"second", version)
    assert (data, store.read_version("a")[0]) == (b"first", b"second")
