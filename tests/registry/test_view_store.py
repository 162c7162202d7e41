"""A view on disk: it comes back as it was saved, after crashes too; a damaged one is made anew by reading."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from photon.registry import view_store
from photon.registry.entry import FOR_EVER, Claimant, Claims, Close, Entry, Epoch, Free, Genesis, LedgerId
from photon.registry.errors import RegistryMismatch
from photon.registry.fold import LedgerState
from photon.registry.form import encode
from photon.registry.holds import HashRun
from photon.registry.register import (
    Members,
    Register,
    with_boundary,
    with_dropped,
    with_epoch,
    with_generation,
)
from photon.registry.segments import SUFFIX, RunDamaged
from photon.registry.view import View
from photon.registry.view_store import FORMAT, ViewStore, ViewUnavailable, read_stored
from tests.registry.in_memory import claims_of, hashes_of
from tests.registry.simulated_world import states_of, summary_of

NORTH, SOUTH = Epoch("north", 1), Epoch("süd", 4)
ONE, OTHER, NEXT = LedgerId(0, 0), LedgerId(0, 1), LedgerId(1, 0)
IDS = hashes_of(*range(600))


def register_of(ledgers: int = 2) -> Register:
    """A register with one generation, as a new registry has it."""
    new = Register("a-pipeline", "hash", Members(1, ("store",)))
    return with_epoch(with_generation(new, -1, ledgers), "north")[0]


def append(view: View, ledger: LedgerId, entry: Entry) -> None:
    """Have the view read one more entry."""
    follows = replace(entry, predecessor=view.states[ledger].checksum)
    assert view.take(ledger, [encode(follows)]) == 1


def claim(view: View, batch: int, *numbers: int, epoch: Epoch = NORTH) -> None:
    """Have a batch claim ids in both ledgers."""
    for ledger in (ONE, OTHER):
        claimant = Claimant(epoch, batch, f"plan-{batch}")
        append(view, ledger, Entry(view.writer, claims=claims_of(claimant, *numbers, time_us=batch)))


def filled(store: ViewStore) -> View:
    """A view with everything that one can have, in a store that has not saved it yet."""
    view = store.load(register_of(), "w")
    for ledger in (ONE, OTHER):
        append(view, ledger, Entry("w", genesis=Genesis(2, void={"süd": 3})))
    claim(view, 1, *range(100))
    claim(view, 2, *range(90, 130))
    claim(view, 1, *range(120, 150), epoch=SOUTH)
    frees = tuple(Free(ledger, 1, hashes_of(*range(10))) for ledger in (ONE, OTHER))
    append(view, ONE, Entry("w", closes=(Close(NORTH, 1, frees),), boundary_us=1))
    append(view, OTHER, Entry("w", closes=(Close(SOUTH, FOR_EVER, is_part=True),)))
    joined: Claims = claims_of(Claimant(NORTH, 1, "joined"), 500, 501)
    append(view, ONE, Entry("w", claims=joined, are_joins=True))
    return view


def claimants_of(view: View) -> list[tuple[LedgerId, int, Claimant]]:
    """Return the claimants of a view with their positions."""
    ledgers = view.claimants.ledgers()
    return [(ledger, *each) for ledger in ledgers for each in view.claimants.items(ledger)]


def known(view: View) -> tuple[object, ...]:
    """All that a view knows."""
    return summary_of(view, IDS), states_of(view), claimants_of(view), view.register


def is_empty(view: View) -> bool:
    """Say whether a view has read nothing."""
    return not len(view.claimants) and not any(state.next_position for state in view.states.values())


class Stores:
    """Stores of one view: each is what a process that starts has."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder / "state", folder / "runs"
        self._opened: list[ViewStore] = []

    def start(self) -> ViewStore:
        """The store of a process that starts, after the last one ended."""
        self.end()
        self._opened.append(ViewStore(self.folder, self.runs))
        return self._opened[-1]

    def filled(self) -> tuple[ViewStore, View]:
        """A store that has saved a view with everything that one can have, and that view."""
        store = self.start()
        view = filled(store)
        store.save(view)
        return store, view

    def end(self) -> None:
        """End the process that has the store open."""
        while self._opened:
            self._opened.pop().close()

    @property
    def database(self) -> Path:
        return self.folder / "view.sqlite"

    def files(self) -> set[str]:
        """The runs that have files."""
        return {each.name.removesuffix(SUFFIX) for each in self.runs.iterdir()}


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = Stores(tmp_path)
    yield opened
    opened.end()


def names(store: ViewStore) -> set[str]:
    """The runs that a store lists."""
    return set(store.listed)


# -- what comes back


def test_a_view_comes_back_as_it_was_saved(stores: Stores) -> None:
    _, view = stores.filled()
    assert known(stores.start().load(register_of(), "w")) == known(view)


def test_the_sample_view_has_every_kind_of_thing(stores: Stores) -> None:
    view = filled(stores.start())
    states = view.states.values()
    assert all(any(getattr(one, name) for one in states) for name in ("void_through", "over", "unclosed"))
    assert len({claimant for _, _, claimant in claimants_of(view)}) == 4


def test_each_of_many_saves_comes_back(stores: Stores) -> None:
    store = stores.start()
    view = filled(store)
    for batch in range(3, 20):
        claim(view, batch, *range(batch * 20, batch * 20 + 20))
        append(view, ONE, Entry("w", closes=(Close(NORTH, batch - 1),)))
        store.save(view)
        if batch % 5 == 0:
            loaded = (store := stores.start()).load(register_of(), "w")
            assert known(loaded) == known(view)
            view = loaded


def test_a_view_that_another_one_replaces_is_saved_whole(stores: Stores) -> None:
    store, _ = stores.filled()
    other = View(register_of(), "w")
    append(other, ONE, Entry("w", genesis=Genesis(2)))
    store.save(other)
    assert known(stores.start().load(register_of(), "w")) == known(other)


def test_a_new_field_of_a_ledgers_state_needs_a_new_format() -> None:
    known = (
        "ledger of next_position checksum is_open is_sealed boundary_us void_through over unclosed latest_us"
        " entries_bytes release"
    )
    assert (FORMAT, " ".join(each.name for each in fields(LedgerState))) == (5, known)


# -- files


def test_a_run_that_did_not_change_keeps_its_file(stores: Stores) -> None:
    store, view = stores.filled()
    before = names(store)
    append(view, ONE, Entry("w"))
    store.save(view)
    assert names(store) == before == stores.files()


def test_holds_are_mapped_from_their_files_once_saved(stores: Stores) -> None:
    _, view = stores.filled()
    assert all(not run.upper.flags.owndata for run in view.holds.runs(0))


def test_files_of_runs_that_were_merged_are_removed(stores: Stores) -> None:
    store, view = stores.filled()
    before = names(store)
    claim(view, 3, *range(150, 600))
    store.save(view)
    assert before - names(store)
    assert names(store) == stores.files()


def test_a_run_that_a_plan_names_stays_until_none_does(stores: Stores) -> None:
    store, view = stores.filled()
    named = names(store)
    claim(view, 3, *range(150, 600))
    store.save(view, in_use=named)
    assert named <= stores.files()
    store = stores.start()
    view = store.load(register_of(), "w", in_use=named)
    assert named <= stores.files()
    store.save(view)
    assert names(store) == stores.files()


def test_a_reader_s_runs_name_no_files_of_another_process(stores: Stores) -> None:
    stores.filled()
    found = read_stored(stores.folder, stores.runs, register_of(), "reader")
    assert found is not None
    assert found.holds.files == []
    assert found.holds.in_memory


def test_a_crash_before_the_transaction_leaves_the_view_before_and_files_that_go(stores: Stores) -> None:
    store, view = stores.filled()
    listed, register = names(store), register_of()
    before = stores.start().load(register, "w")
    claim(view, 3, *range(150, 600))
    store = stores.start()
    crashed = store.load(register, "w")
    claim(crashed, 3, *range(150, 600))
    store._db.execute("PRAGMA query_only = ON")
    with pytest.raises(ViewUnavailable, match=r"cannot write the view of the registry .*readonly"):
        store.save(crashed)
    assert stores.files() > listed
    assert known(stores.start().load(register, "w")) == known(before)
    assert stores.files() == listed


# -- the register


def test_a_register_that_went_on_is_the_views(stores: Stores) -> None:
    stores.filled()
    later = with_boundary(with_generation(register_of(), 0, 1), 7)
    view = stores.start().load(later, "w")
    assert (view.register, NEXT in view.states) == (later, True)


def test_what_a_dropped_generation_held_does_not_come_back(stores: Stores) -> None:
    store = stores.start()
    view = filled(store)
    rolled = with_generation(register_of(), 0, 1)
    view.note(rolled)
    for ledger in (ONE, OTHER):
        append(view, ledger, Entry("w", seals=True))
    append(view, NEXT, Entry("w", genesis=Genesis(1, (ONE, OTHER))))
    store.save(view)
    dropped = with_dropped(rolled, 0)
    view = (store := stores.start()).load(dropped, "w")
    assert not view.holders(IDS).are_held.any()
    store.save(view)
    assert stores.files() == set()
    assert store._db.execute("SELECT DISTINCT generation FROM claimants").fetchall() == []
    ((content,),) = store._db.execute("SELECT content FROM view").fetchall()
    assert {generation for generation, *_ in json.loads(content)["ledgers"]} == {1}
    assert known(stores.start().load(dropped, "w")) == known(view)


def test_a_view_of_an_earlier_incarnation_is_made_anew(stores: Stores) -> None:
    stores.filled()
    assert is_empty(stores.start().load(replace(register_of(), incarnation=2), "w"))
    assert stores.files() == set()


@pytest.mark.parametrize(
    "older",
    [
        replace(register_of(), incarnation=1),
        replace(register_of(), incarnation=2, epochs={}),
        replace(register_of(), incarnation=2, generations=()),
    ],
)
def test_a_registry_that_is_older_than_the_view_is_refused_at_each_start(
    stores: Stores, older: Register
) -> None:
    now = replace(register_of(), incarnation=2)
    store = stores.start()
    view = store.load(now, "w")
    append(view, ONE, Entry("w", genesis=Genesis(2)))
    store.save(view)
    for _ in range(2):
        with pytest.raises(RegistryMismatch):
            stores.start().load(older, "w")
    assert known(stores.start().load(now, "w")) == known(view)


# -- damage

Damage = Callable[[Stores], None]


def change(statement: str) -> Damage:
    """Change the database by one statement."""

    def damage(stores: Stores) -> None:
        with sqlite3.connect(stores.database) as db:
            db.execute(statement)
        db.close()

    return damage


def a_run_goes(stores: Stores) -> None:
    next(iter(stores.runs.iterdir())).unlink()


def a_byte_of_a_run_is_altered(stores: Stores) -> None:
    path = next(iter(stores.runs.iterdir()))
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def the_database_is_text(stores: Stores) -> None:
    stores.database.write_text("no database at all, and long enough to look like one" * 100)


@pytest.mark.parametrize(
    "damage",
    [
        a_run_goes,
        the_database_is_text,
        change("UPDATE view SET content = replace(content, 'north', 'south')"),
        change("UPDATE view SET content = cast(x'ff' AS TEXT)"),
        change("UPDATE view SET content = replace(content, 'true', 'false')"),
        change("UPDATE view SET unclosed = zeroblob(length(unclosed))"),
        change("UPDATE view SET unclosed = x''"),
        change("UPDATE claimants SET content = zeroblob(9) WHERE number = 1"),
        change("DELETE FROM claimants WHERE number = 0"),
        change("INSERT INTO claimants VALUES (0, 0, 99, x'01')"),
        change("DROP TABLE claimants"),
        change(f"PRAGMA user_version = {FORMAT + 1}"),
        change("PRAGMA user_version = 0"),
    ],
)
def test_a_damaged_view_is_made_anew_and_can_be_saved(
    stores: Stores, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    stores.filled()
    stores.end()
    damage(stores)
    store = stores.start()
    view = store.load(register_of(), "w")
    assert is_empty(view)
    assert "is of no use, so that the ledgers are read from their beginning" in caplog.text
    append(view, ONE, Entry("w", genesis=Genesis(2)))
    store.save(view)
    assert known(stores.start().load(register_of(), "w")) == known(view)


def test_files_are_compared_with_their_checksums_only_after_a_process_that_was_killed(stores: Stores) -> None:
    stores.filled()
    stores.end()
    a_byte_of_a_run_is_altered(stores)
    assert not is_empty(stores.start().load(register_of(), "w"))
    stores.end()
    change("UPDATE process SET is_at_work = 1")(stores)  # a crash of the machine leaves that
    assert is_empty(stores.start().load(register_of(), "w"))


def test_another_process_s_view_is_read_while_that_one_goes_on(stores: Stores) -> None:
    store, view = stores.filled()
    found = read_stored(stores.folder, stores.runs, register_of(), "reader")
    assert found is not None
    assert known(found) == known(view)
    assert found.writer == "reader"
    claim(view, 3, *range(150, 600))
    store.save(view)  # replaces the files that the reader has mapped
    assert found.holders(IDS).are_held.any()


def test_a_reader_whose_files_vanish_while_it_opens_them_tries_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, view = stores.filled()
    right = view_store.open_run
    tries = 0

    def open_run(*arguments: Any) -> HashRun:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise RunDamaged("it is not there")
        return right(*arguments)

    monkeypatch.setattr(view_store, "open_run", open_run)
    found = read_stored(stores.folder, stores.runs, register_of(), "reader")
    assert found is not None
    assert known(found) == known(view)


def test_a_view_that_is_not_there_or_damaged_is_nothing_to_a_reader_and_stays_as_it_is(
    stores: Stores,
) -> None:
    assert read_stored(stores.folder, stores.runs, register_of(), "reader") is None
    stores.filled()
    stores.end()
    the_database_is_text(stores)
    content = stores.database.read_bytes()
    assert read_stored(stores.folder, stores.runs, register_of(), "reader") is None
    assert stores.database.read_bytes() == content


def test_no_flipped_byte_of_the_database_makes_another_view(stores: Stores) -> None:
    _, view = stores.filled()
    stores.end()
    whole, files = stores.database.read_bytes(), {each: each.read_bytes() for each in stores.runs.iterdir()}
    used = [at for at, byte in enumerate(whole) if byte]
    results = set()
    harmless = 99  # a byte of the SQLite version that wrote the file
    for at in [*random.Random(3).sample(used, 100), harmless]:
        stores.database.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        for path, content in files.items():
            path.write_bytes(content)
        try:
            loaded = stores.start().load(register_of(), "w")
        except ViewUnavailable:
            results.add("unavailable")
            continue
        finally:
            stores.end()
        assert is_empty(loaded) or known(loaded) == known(view), at
        results.add("empty" if is_empty(loaded) else "as it was")
    assert {"empty", "as it was"} <= results


class BrokenDatabase:
    """Fails as SQLite does where it can't write beside the database."""

    def execute(self, statement: str, *values: object) -> None:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
        raise error

    def close(self) -> None:
        """It has nothing to close."""


def test_a_full_disk_on_which_sqlite_fails_otherwise_is_told_as_full(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, view = stores.filled()
    store._db.close()
    store._db = BrokenDatabase()  # type: ignore[assignment]
    monkeypatch.setattr("photon.storage.full_disks.LEAST_BYTES", 2**62)
    with pytest.raises(ViewUnavailable, match="It goes on by itself then") as raised:
        store.save(view)
    assert "remove it: rm" not in str(raised.value)


def test_a_disk_that_fails_is_no_damage(stores: Stores) -> None:
    _, view = stores.filled()
    stores.end()
    stores.database.rename(stores.folder / "kept")
    stores.database.mkdir()
    with pytest.raises(ViewUnavailable, match=r"cannot read the view of the registry .*view\.sqlite"):
        stores.start()
    stores.database.rmdir()
    (stores.folder / "kept").rename(stores.database)
    assert known(stores.start().load(register_of(), "w")) == known(view)
