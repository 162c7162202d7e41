"""Names that a table's log or a document gives lead nowhere outside of their folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from photon.pipeline.location import OutsideFolder, S3Folder
from photon.storage.damaged_files import missing_files
from photon.storage.data_files import DataFile, DataFiles
from photon.storage.delta import LakeUnavailable
from photon.storage.replaced_files import ReplacedFiles
from photon.storage.s3 import S3Store
from photon.storage.store import LocalStore, content
from photon.storage.table_log import checkpoint, clean
from photon.storage.tables import OutputTable
from photon.storage.vacuum import vacuum
from tests.unit.compacted_table import BATCHES, WEEK_SECONDS, append, new_table, now_us

LEADS_OUT = ["../secret", "a/../../secret", "/SECRET", "link/secret", "file:///SECRET", "..", "nul\0byte"]
DO: dict[str, Callable[[LocalStore, str], object]] = {
    "read": lambda store, name: store.read(name),
    "open": lambda store, name: store.open(name),
    "size": lambda store, name: store.size_bytes(name),
    "create": lambda store, name: store.create(name, content(b"x")),
    "put": lambda store, name: store.put(name, content(b"x")),
    "remove": lambda store, name: store.remove("good", name),
    "remove_folder": lambda store, name: store.remove_folder(name),
}


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file beside a folder with an object, and a link in the folder that leads to where the file is."""
    folder = tmp_path / "outside" / "folder"
    folder.mkdir(parents=True)
    (folder / "good").write_text("good")
    (folder / "link").symlink_to(folder.parent)
    (folder / "linked").symlink_to(folder.parent / "secret")
    (folder.parent / "secret").write_text("secret")
    return folder.parent / "secret"


@pytest.mark.parametrize("name", LEADS_OUT)
@pytest.mark.parametrize("do", DO)
def test_a_name_that_leads_out_is_refused_whatever_is_done_with_it(outside: Path, do: str, name: str) -> None:
    folder = outside.parent / "folder"
    with pytest.raises(OutsideFolder, match="leads out of this folder"):
        DO[do](LocalStore(folder), name.replace("/SECRET", str(outside)))
    assert outside.read_text() == "secret"
    assert (folder / "good").exists()  # nothing is removed if one of several names leads out


@pytest.mark.parametrize("do", ["read", "open"])
def test_a_link_in_the_place_of_an_object_is_not_read_through(outside: Path, do: str) -> None:
    with pytest.raises(OutsideFolder):
        DO[do](LocalStore(outside.parent / "folder"), "linked")


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/SECRET"])
def test_a_file_outside_is_no_data_file_that_is_there(outside: Path, name: str) -> None:
    name = name.replace("/SECRET", str(outside))
    assert missing_files(outside.parent / "folder", ["good", name]) == [name]


def test_a_folder_that_is_itself_reached_by_a_link_is_used_as_any(outside: Path) -> None:
    (outside.parent / "lake").symlink_to("folder")
    store = LocalStore(outside.parent / "lake")
    assert store.create("day/object", content(b"object")) == 6
    assert store.read("day/object") == b"object"


@pytest.mark.parametrize("name", ["../secret", "a/../../secret", "/secret"])
def test_a_name_that_leads_out_of_a_prefix_never_comes_to_the_store(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nobody")
    store = S3Store(S3Folder("bucket", "lake", "http://127.0.0.1:9"))  # where nobody listens
    for do in (store.read, store.open, store.remove):
        with pytest.raises(OutsideFolder):
            do(name)


def with_commit_of_others(table: OutputTable, *actions: dict[str, Any]) -> None:
    version = table.load().version() + 1
    entry = table.folder / "_delta_log" / f"{version:020d}.json"
    entry.write_text("".join(json.dumps(action) + "\n" for action in ({"commitInfo": {}}, *actions)))


@pytest.mark.parametrize("named", ["absolute", "../precious", "%2E%2E%2Fprecious"])
def test_a_file_outside_of_the_table_that_a_removal_of_others_names_stays(tmp_path: Path, named: str) -> None:
    table, precious = new_table(tmp_path / "lake"), tmp_path / "lake" / "precious"
    precious.write_text("precious")
    path = str(precious) if named == "absolute" else named
    with_commit_of_others(table, {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 0}})
    append(table, BATCHES + 1)
    checkpoint(table.folder)
    clean(table.folder, now_us() + 1_000_000)
    for bundle in (table.folder / "_archived_log").iterdir():
        os.utime(bundle, (0, now_us() / 1_000_000 - WEEK_SECONDS - 60))
    with pytest.raises(LakeUnavailable, match="leads out of this folder"):
        vacuum(table, None, True, now_us())
    assert precious.read_text() == "precious"


@pytest.mark.parametrize("path", ["../secret.parquet", "/etc/secret.parquet", "s3://other/secret.parquet"])
def test_a_table_whose_log_adds_a_file_from_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    table = new_table(tmp_path)
    added = {"path": path, "partitionValues": {}, "size": 1, "modificationTime": 0, "dataChange": True}
    with_commit_of_others(table, {"add": added})
    with pytest.raises(OutsideFolder, match="leads out of this folder"):
        DataFiles(table.load())


@pytest.mark.parametrize("path", ["../../secret.parquet", "/etc/secret.parquet"])
def test_a_list_of_replaced_files_that_names_one_from_elsewhere_is_refused(tmp_path: Path, path: str) -> None:
    lists = ReplacedFiles(tmp_path)
    file = DataFile(path, 1, 1, "1", "1", 1, 1)
    for went, came in (([file], []), ([], [path])):
        with pytest.raises(OutsideFolder, match="leads out of this folder"):
            lists.read(lists.add(1, went, came))
