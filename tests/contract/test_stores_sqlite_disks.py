"""Full and protected disks, foreign users and forks beside the file of a local registry: nothing is lost."""

from __future__ import annotations

import multiprocessing
import os
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from photon.registry.stores.copies import Done, Insert, NoReply
from photon.registry.stores.sqlite import lock
from photon.registry.stores.sqlite.file import RegistryFile
from photon.registry.stores.sqlite.problems import NoAnswer
from photon.registry.stores.sqlite.store import SqliteStore
from tests.contract.sqlite_stores import AT, at, in_a_process, kind_of, store_in, value_at
from tests.e2e.small_disk import SmallDisk
from tests.support.without_privileges import reading_as_others_do


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "registry"


@pytest.fixture
def store(folder: Path) -> SqliteStore:
    return store_in(folder)


# -- disks and rights


@pytest.fixture
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    try:
        disk = SmallDisk(folder, "400k")
    except (subprocess.CalledProcessError, FileNotFoundError):
        pytest.skip("file systems can't be mounted here: a full disk can't be had")
    yield disk
    disk.unmount()


def test_a_full_disk_takes_no_writes_loses_none_and_goes_on(small_disk: SmallDisk, folder: Path) -> None:
    store, stored = store_in(folder), 0
    while isinstance(reply := store.insert(Insert(at(stored), b"x" * 20_000)), Done):
        stored += 1
    assert "make room" in reply.reason  # type: ignore[union-attr]
    assert isinstance(store.touch(), NoReply), "the check of health really writes"
    assert [value_at(store, position) for position in range(stored)] == [b"x" * 20_000] * stored
    assert value_at(store, stored) is None
    small_disk.grow("4m")
    assert store.touch() == Done()
    assert store.insert(Insert(at(stored), b"x" * 20_000)) == Done()


def test_a_disk_that_can_not_be_written_denies_writes_and_answers(
    small_disk: SmallDisk, folder: Path
) -> None:
    store = store_in(folder)
    assert store.insert(Insert(AT, b"mine")) == Done()
    small_disk.write_protect(True)
    try:
        assert value_at(store, 0) == b"mine"
        denied = store.insert(Insert(at(1), b"mine"))
        assert kind_of(denied) == "denied"
        assert "read-only: mount it so that it can be written)" in denied.reason  # type: ignore[union-attr]
        unmade = RegistryFile(folder / "unmade")
        with pytest.raises(NoAnswer, match="is mounted read-only: mount it"):
            unmade.make(1.0)
    finally:
        small_disk.write_protect(False)
    assert store.insert(Insert(at(1), b"mine")) == Done()


def _limited(folder: Path, table: str, asked: Any) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
    store = SqliteStore(RegistryFile(folder), table, 60)
    replies = [store.insert(Insert(at(position), b"x" * 50_000)) for position in range(6)]
    asked.send([type(one).__name__ for one in replies])


def test_a_limit_of_file_size_is_an_error_and_loses_nothing(store: SqliteStore, folder: Path) -> None:
    kinds = in_a_process(_limited, folder, store.table)
    stored = kinds.count("Done")
    assert kinds == ["Done"] * stored + ["NoReply"] * (6 - stored)
    assert 0 < stored < 6
    assert [value_at(store, position) is not None for position in range(6)] == [
        one == "Done" for one in kinds
    ]


def _as_nobody(folder: Path, table: str, asked: Any) -> None:
    os.setgid(65534)
    os.setuid(65534)
    reply = SqliteStore(RegistryFile(folder), table, 60).get(AT)
    asked.send((reply.kind, reply.reason) if isinstance(reply, NoReply) else reply)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_the_file_of_another_user_is_denied_with_its_owner_and_mode(tmp_path_factory: Any) -> None:
    top = Path("/tmp") / f"photon-registry-{os.getpid()}"  # pytest's folders are closed to others anyway
    try:
        top.mkdir(mode=0o755)
        store = store_in(top / "registry")
        kind, reason = in_a_process(_as_nobody, top / "registry", store.table)
    finally:
        shutil.rmtree(top)
    assert kind == "denied"
    assert f"({top / 'registry'} belongs to root, mode 0700" in reason


@pytest.mark.parametrize("closed", ["registry", "."])
def test_a_folder_that_may_not_be_entered_is_named_with_the_command_that_opens_it(
    folder: Path, closed: str
) -> None:
    store = store_in(folder)
    shut = (folder.parent / closed).resolve()
    shut.chmod(0o600)
    try:
        with reading_as_others_do():
            denied = store.get(AT)
    finally:
        shut.chmod(0o700)
    assert kind_of(denied) == "denied"
    assert f"mode 0600; run: chmod u+rwX {shut})" in denied.reason  # type: ignore[union-attr]


# -- forks


def _claims_in_a_fork(store: SqliteStore, asked: Any) -> None:
    asked.send([type(store.insert(Insert(at(p), b"child"))).__name__ for p in range(20)])


def test_a_fork_has_no_part_in_its_parents_transactions(store: SqliteStore) -> None:
    ends = threading.Event()

    def write() -> None:
        while not ends.is_set():
            store.touch()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            ours, theirs = multiprocessing.Pipe()
            if (child := os.fork()) == 0:
                _claims_in_a_fork(store, theirs)
                os._exit(0)
            assert ours.poll(60)
            assert len(ours.recv()) == 20
            assert os.waitpid(child, 0)[1] == 0
    finally:
        ends.set()
        thread.join()
    assert [value_at(store, position) for position in range(20)] == [b"child"] * 20


def test_of_two_threads_that_fork_at_once_each_frees_what_it_paused(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "FORK_SECONDS", 0.01)
    assert store.touch() == Done()
    lock._before_fork()
    with ThreadPoolExecutor(1) as other:  # gets no turn in time, and forks all the same
        other.submit(lock._before_fork).result()
        other.submit(lock._in_parent).result()
    lock._in_parent()
    assert store.touch() == Done()
