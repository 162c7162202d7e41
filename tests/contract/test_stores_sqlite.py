"""What befalls the file of a local registry, and those who share it: each answer is right, or is none."""

from __future__ import annotations

import fcntl
import os
import shutil
import sqlite3
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from photon.pipeline.sections import Registry
from photon.process.clock import SystemClock
from photon.registry.address import EndpointAddress
from photon.registry.errors import RegistryMissing, RegistryUnavailable
from photon.registry.opening import copy_registry, find_registry, init_registry
from photon.registry.stores.copies import Done, Insert, NoReply, Prepare, Promised, Refused
from photon.registry.stores.sqlite.endpoint import SqliteEndpoint
from photon.registry.stores.sqlite.file import DATABASE, RegistryFile
from photon.registry.stores.sqlite.lock import LOCK, NEXT, Missed, alone_in, holders_of
from photon.registry.stores.sqlite.store import SqliteStore
from tests.contract.sqlite_stores import AT, PATIENT, at, kind_of, store_in, value_at
from tests.registry.store_backends import pipeline_over
from tests.support.registry_claimants import claimed_by, claiming
from tests.support.registry_writer import writing
from tests.support.stopped_processes import stopped


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "registry"


@pytest.fixture
def store(folder: Path) -> SqliteStore:
    return store_in(folder)


# -- turns


def test_threads_and_stores_of_one_process_take_turns(folder: Path) -> None:
    stores = [store_in(folder) for _ in range(4)]

    def claim(number: int) -> int:
        return sum(stores[number % 4].insert(Insert(at(p), bytes([number]))) == Done() for p in range(25))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 25, "each position has one winner"


def test_who_frees_the_lock_and_wants_it_again_comes_behind_who_waits(folder: Path) -> None:
    folder.mkdir(parents=True)
    of_another = folder / ".." / folder.name  # a process takes turns with itself by the path
    turns: list[str] = []

    def wait() -> None:
        with alone_in(folder, time.monotonic() + 60):
            turns.append("who waits")

    thread = threading.Thread(target=wait)
    with alone_in(of_another, time.monotonic() + 60):
        thread.start()
        while not is_held(folder / NEXT):
            time.sleep(0.001)
    with alone_in(of_another, time.monotonic() + 60):
        turns.append("who wants it again")
    thread.join()
    assert turns == ["who waits", "who wants it again"]


def is_held(lock: Path) -> bool:
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_process_that_stands_still_in_a_transaction_holds_others_up_and_is_named(
    store: SqliteStore, folder: Path
) -> None:
    hasty = SqliteStore(RegistryFile(folder), store.table, 1.2)
    with writing(folder) as process:
        with stopped(process.pid):
            for reply in (hasty.insert(Insert(AT, b"mine")), hasty.get(AT)):
                assert kind_of(reply) == "unreachable"
                assert f"process {process.pid} (" in reply.reason  # type: ignore[union-attr]
                assert f"kill -CONT {process.pid} has it go on" in reply.reason  # type: ignore[union-attr]
                assert "kill -9" not in reply.reason  # type: ignore[union-attr]
        assert process.stdin is not None
        process.stdin.write("commit\n")
        process.stdin.flush()
        assert store.insert(Insert(AT, b"mine")) == Done()
        assert process.stdout is not None
        assert process.stdout.readline() == "committed\n"


def test_a_turn_that_is_missed_for_a_moment_is_asked_for_again(store: SqliteStore, folder: Path) -> None:
    hasty = SqliteStore(RegistryFile(folder), store.table, 0.1)
    with writing(folder):
        assert kind_of(hasty.insert(Insert(AT, b"mine"))) == "throttled"
    assert hasty.insert(Insert(AT, b"mine")) == Done()


def test_a_process_that_is_killed_in_a_transaction_leaves_neither_lock_nor_change(
    store: SqliteStore, folder: Path
) -> None:
    for _ in range(3):
        with writing(folder) as process:
            process.kill()
    assert store.insert(Insert(AT, b"mine")) == Done()
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        assert connection.execute("SELECT touched FROM stores").fetchall() == [(None,)]


def test_only_those_who_hold_a_lock_are_told_of_it() -> None:
    locks = """\
1: FLOCK  ADVISORY  WRITE 40 fe:00:11 0 EOF
1: -> FLOCK  ADVISORY  WRITE 41 fe:00:11 0 EOF
2: POSIX  ADVISORY  WRITE 42 fe:00:12 0 EOF
3: OFDLCK ADVISORY  READ -1 00:06:11 0 0
"""
    assert holders_of(11, locks)[0] == 40
    assert 41 not in holders_of(11, locks)
    assert holders_of(12, locks) == [42]
    assert holders_of(1, locks) == []


def test_a_lock_that_was_deleted_and_made_again_is_the_one_that_counts(folder: Path) -> None:
    folder.mkdir(parents=True)
    with alone_in(folder, time.monotonic() + 60):
        (folder / LOCK).unlink()
    by_another_path = alone_in(Path(f"{folder}/../registry"), time.monotonic() + 0.05)
    with alone_in(folder, time.monotonic() + 60), pytest.raises(Missed), by_another_path:
        pass


# -- what is at the path


def test_a_folder_that_is_replaced_is_seen_by_the_next_request(
    store: SqliteStore, folder: Path, tmp_path: Path
) -> None:
    assert store.insert(Insert(AT, b"old")) == Done()
    shutil.copytree(folder, tmp_path / "copy")
    assert store.insert(Insert(at(1), b"younger")) == Done()
    folder.rename(tmp_path / "away")
    assert kind_of(store.get(AT)) == "unreachable"
    assert not folder.exists(), "nobody makes it but init"
    (tmp_path / "copy").rename(folder)
    assert value_at(store, 0) == b"old"
    assert value_at(store, 1) is None, "an older copy is what it is: views and lakes notice it (L10, A23)"
    assert store.insert(Insert(at(1), b"another")) == Done()


def test_a_folder_that_is_replaced_during_a_commit_makes_it_unclear(folder: Path, tmp_path: Path) -> None:
    store_in(folder)

    def change(connection: sqlite3.Connection, when: str = "in") -> None:
        connection.execute("UPDATE stores SET touched = x'01'")
        if when == "in":
            folder.rename(tmp_path / "away")

    file = RegistryFile(folder)
    with pytest.raises(Exception, match="was replaced while it was in use"):
        file.ask(change, 60)
    (tmp_path / "away").rename(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        assert connection.execute("SELECT touched FROM stores").fetchall() == [(None,)]


def test_a_copy_that_is_written_over_the_file_is_seen_whole(
    store: SqliteStore, folder: Path, tmp_path: Path
) -> None:
    assert store.insert(Insert(AT, b"old")) == Done()
    shutil.copyfile(folder / DATABASE, tmp_path / "copy")
    assert store.insert(Insert(at(1), b"younger")) == Done()
    shutil.copyfile(tmp_path / "copy", folder / DATABASE)
    assert (value_at(store, 0), value_at(store, 1)) == (b"old", None)
    assert store.insert(Insert(at(1), b"another")) == Done()


def test_whoever_opens_and_closes_the_file_in_a_process_takes_no_lock_away(
    store: SqliteStore, folder: Path, tmp_path: Path
) -> None:
    """SQLite's own locks are gone then: two processes would commit at once."""
    with claiming(folder, 3) as claimants:
        for position in range(0, 3_000):
            (folder / DATABASE).open("rb").close()
            if isinstance(store.insert(Insert(at(position), b"mine %d" % position)), Done):
                (folder / DATABASE).read_bytes()[:16]
            if position % 300 == 0 and min(map(len, claimed_by(claimants).values())) > 20:
                break
    assert_each_claim_stands(store, claimed_by(claimants))


def test_a_hard_link_is_refused(store: SqliteStore, folder: Path, tmp_path: Path) -> None:
    os.link(folder / DATABASE, tmp_path / "linked")
    assert kind_of(store.get(AT)) == "unreachable"
    (tmp_path / "linked").unlink()
    assert store.insert(Insert(AT, b"mine")) == Done()


@pytest.mark.parametrize("old", ["dynoxide.db", "shared-local-instance.db"])
def test_the_data_of_an_old_server_is_refused_by_all_with_the_steps(tmp_path: Path, old: str) -> None:
    pipeline = pipeline_over(tmp_path, Registry())
    pipeline.registry_folder.mkdir(parents=True)
    (pipeline.registry_folder / old).write_bytes(b"ids")
    for ask in (find_registry, lambda one: init_registry(one, SystemClock())):
        with pytest.raises(RegistryUnavailable, match=f"{old} is the registry of an earlier Photon.*mv "):
            ask(pipeline)
    (pipeline.registry_folder / old).rename(tmp_path / "away")
    with pytest.raises(RegistryMissing):
        find_registry(pipeline)


# -- making


def test_an_init_that_was_killed_is_made_good_by_the_next_one(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "registry.unfinished").write_bytes(b"half")
    (folder / "registry.unfinished-journal").write_bytes(b"half")
    assert store_in(folder).insert(Insert(AT, b"mine")) == Done()
    assert {one.name for one in folder.iterdir()} == {DATABASE, f"{DATABASE}-journal", LOCK, NEXT}


@pytest.mark.parametrize("umask", [0, 0o77])
def test_the_folder_and_its_files_are_their_users_alone(folder: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert store_in(folder).insert(Insert(AT, b"mine")) == Done()
        RegistryFile(folder).copy_to(folder.parent / "backup", 60)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    made = [*folder.iterdir(), folder.parent / "backup" / DATABASE]
    assert {stat.S_IMODE(one.stat().st_mode) for one in made} == {0o600}


def test_a_file_of_something_else_is_told(store: SqliteStore, folder: Path) -> None:
    (folder / DATABASE).write_bytes(b"")
    assert "is no registry that this Photon knows" in store.get(AT).reason  # type: ignore[union-attr]
    (folder / DATABASE).write_bytes(b"text, and a lot of it " * 1_000)
    reply = store.insert(Insert(AT, b"mine"))
    assert kind_of(reply) == "unreachable"
    assert f"(SQLite {sqlite3.sqlite_version})" in reply.reason  # type: ignore[union-attr]
    assert "A lost registry" in reply.reason  # type: ignore[union-attr]


def test_damage_within_is_told(store: SqliteStore, folder: Path) -> None:
    for position in range(40):
        assert store.insert(Insert(at(position), os.urandom(5_000))) == Done()
    with (folder / DATABASE).open("r+b") as file:
        file.seek(4_096)
        file.write(b"\xff" * 60_000)
    replies = [store.get(at(position)) for position in range(40)]
    assert {kind_of(one) for one in replies if isinstance(one, NoReply)} == {"unreachable"}


# -- upkeep


def test_a_backup_beside_claims_has_all_that_was_claimed_before(tmp_path: Path) -> None:
    pipeline = pipeline_over(tmp_path, Registry())
    init_registry(pipeline, SystemClock())
    with claiming(pipeline.registry_folder, 2) as claimants:
        while min(len(one) for one in claimed_by(claimants).values()) < 20:
            time.sleep(0.05)  # others claim: there is no clock to inject
        before = claimed_by(claimants)
        copy_registry(pipeline, tmp_path / "backup")
    assert_each_claim_stands(store_in(tmp_path / "backup"), before)
    with pytest.raises(Exception, match="is there already"):
        copy_registry(pipeline, tmp_path / "backup")


def test_a_forgotten_ledger_goes_in_slices_and_leaves_the_others(store: SqliteStore, folder: Path) -> None:
    other = SqliteEndpoint(EndpointAddress(folder), PATIENT)
    others = other.store(other.directory.ensure_table_of("other"))
    assert others.insert(Insert(AT, b"x")) == Done()
    for position in range(250):
        assert store.insert(Insert(at(position), b"x")) == Done()
    assert [store.forget(AT.ledger) for _ in range(3)] == [200, 50, 0]
    assert value_at(others, 0) == b"x"


def test_a_promise_is_in_an_inserts_way(store: SqliteStore) -> None:
    assert isinstance(store.prepare(Prepare(AT, "a7-x")), Promised)
    refused = store.insert(Insert(AT, b"x"))
    assert isinstance(refused, Refused)
    assert (refused.now.value, refused.now.promised) == (None, "a7-x")


# -- kills


@pytest.mark.parametrize(
    "kills", [60, pytest.param(1_000, marks=[pytest.mark.long, pytest.mark.timeout(1_800)])]
)
def test_whoever_is_killed_no_key_is_won_twice_and_no_claim_is_lost(folder: Path, kills: int) -> None:
    """Four at a time claim the same positions; each is killed within a moment, in whatever it does."""
    with claiming(folder, 4, kills=kills) as claimants:
        pass
    claimed = claimed_by(claimants)
    assert len(claimed) == kills
    store = store_in(folder, timedelta(seconds=1))
    assert store.touch() == Done(), "no lock is left"
    assert_each_claim_stands(store, claimed)


def assert_each_claim_stands(store: SqliteStore, claimed: dict[str, dict[int, bytes]]) -> None:
    """Whoever was told that a position is his own has it, and nobody else was told so."""
    won = [(position, value) for one in claimed.values() for position, value in one.items()]
    assert won, "nobody claimed anything"
    assert len({position for position, _ in won}) == len(won), "a position was won twice"
    found: dict[int, bytes] = {}
    first = 0
    while True:
        page = store.page(at(first))
        assert not isinstance(page, NoReply), page
        found |= {position: copy.value for position, copy in page.copies.items() if copy.value is not None}
        if page.through is None:
            break
        first = page.through + 1
    assert {position: found.get(position, b"")[: len(value)] for position, value in won} == dict(won)
