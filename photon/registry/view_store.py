"""A view on disk: states of ledgers and claimants in SQLite, holds in files that are mapped (`segments`).

Claimants are added to, since there are many; the states, with what is unclosed, are one row.

All of SQLite changes in one transaction, after the files that it lists were written. So a crash leaves files
that nobody lists, which the next start removes. A view that is damaged, or of another incarnation of the
registry, is made anew by reading: what is here was decided, and the ledgers have all of it.

A file of holds is never changed. So a start looks at the headers and sizes of all of them, and compares their
checksums only if the process before did not end in order: then the machine may have crashed, or the folder is
a copy that was made while it ran. Bits that turn on a disk are for the disk's own checksums to find.
"""

from __future__ import annotations

import json
import logging
import secrets
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from photon.pipeline.location import Location
from photon.process.errors import FormatTooNew, UserError
from photon.process.operating_system import private_file, private_folder
from photon.registry.entry import Claimant, Epoch, LedgerId, NumberedRelease
from photon.registry.fold import LedgerState, Unclosed
from photon.registry.holds import HashRun, RunFile
from photon.registry.register import Register, decode_register, encode_register
from photon.registry.segments import RunDamaged, open_run, remove_other_runs, remove_runs, write_run
from photon.registry.view import View
from photon.storage.full_disks import is_without_room, why_not
from photon.storage.store import store_of
from photon.storage.store_errors import StoreUnavailable, disk_remedy
from photon.storage.sync import keep_transactions

log = logging.getLogger(__name__)

FORMAT = 5
VIEW_FILE = "view.sqlite"
READ_TRIES = 3  # at reading another process's view
_SCHEMA = f"""
BEGIN;
CREATE TABLE view (content TEXT NOT NULL, unclosed BLOB NOT NULL, digest BLOB NOT NULL);
CREATE TABLE claimants (
    generation INTEGER NOT NULL, number INTEGER NOT NULL, first INTEGER NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (generation, number, first));
CREATE TABLE process (is_at_work INTEGER NOT NULL);
PRAGMA user_version = {FORMAT};
COMMIT;
"""


_NOT_OF_THE_FILE = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
_ANEW = "%s is of no use, so that the ledgers are read from their beginning: %s"


class ViewUnavailable(UserError):
    """The view can't be read from its disk, or written to it; the message names it and the reason."""


class _Unusable(Exception):
    """The stored content is no view of this registry; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class _Saved:
    """The claimants of a ledger as they were saved: up to which position, and a digest of all their rows."""

    next_position: int = 0
    digest: bytes = b""


class ViewStore:
    """The stored view of one process: its only writer.

    `folder` has the database; `runs`: a folder of their own for the files.
    """

    def __init__(self, folder: Path, runs: Location) -> None:
        """ViewUnavailable."""
        self.path = folder / VIEW_FILE
        self.runs_folder = runs
        self._saved: dict[LedgerId, _Saved] = {}
        self.listed: set[str] = set()  # runs of the view as it was saved
        self._replaced: set[str] = set()  # those that are listed no more, and may be in use
        self._view: View | None = None
        with self._told("read"):
            private_folder(folder)
            store_of(runs).make()
            self._db = self._connect()

    def close(self) -> None:
        """End in order."""
        with suppress(sqlite3.Error):  # then the next start compares checksums
            self._note_process(is_at_work=False)
        self._db.close()

    def load(self, register: Register, writer: str, in_use: Collection[str] = ()) -> View:
        """The view as it was saved, under the register as it is now; or one that has read nothing.

        `in_use`: runs that open plans name, whose files stay. ViewUnavailable; RegistryMismatch if the
        registry is older than the view (L10).
        """
        with self._told("read"):
            try:
                is_in_order = self._db.execute("SELECT * FROM process WHERE is_at_work").fetchone() is None
                self._note_process(is_at_work=True)
                view = self._load(register.incarnation, writer, compares_checksums=not is_in_order)
            except (_Unusable, RunDamaged, FormatTooNew, sqlite3.Error, UnicodeDecodeError) as error:
                if isinstance(error, sqlite3.Error) and not _is_damage(error):
                    raise
                log.warning(_ANEW, self.path, error)
                self._begin_anew()
                view = None
            if view is not None:
                view.note(register)
            self._view = view or View(register, writer)
            remove_other_runs(self.runs_folder, self.listed.union(in_use))
            self._replaced = set(in_use) - self.listed
        return self._view

    def save(self, view: View, in_use: Collection[str] = ()) -> None:
        """Store the view, and have its holds mapped from their files; `in_use` as in `load`.

        ViewUnavailable: it may be stored or not.
        """
        with self._told("write"):
            if view is not self._view:
                self._begin_anew()
                self._view = view
            holds = view.holds
            runs = {one: [self._stored(one, run) for run in holds.runs(one)] for one in holds.generations}
            store_of(self.runs_folder).sync()
            self._db.execute("BEGIN IMMEDIATE")
            try:
                self._saved = self._put(view, runs)
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            for generation, some in runs.items():
                holds.replace(generation, some)
            before, self.listed = self.listed, {file.name for file in holds.files}
            self._replaced |= before - self.listed
            gone = self._replaced.difference(in_use, self.listed)
            remove_runs(self.runs_folder, gone)
            self._replaced -= gone

    # -- the database

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.OperationalError, sqlite3.IntegrityError) as error:
            why, folders = str(error), (self.path.parent, self.runs_folder)
            remedy = f"Look at its disk; if the file is damaged, remove it: rm {self.path}"
            if isinstance(error, StoreUnavailable):
                remedy = f"Bring the store of {self.runs_folder} back"
            elif isinstance(error, PermissionError):  # of a store, or of this machine
                remedy = f"{disk_remedy(error) or 'As it says'}: the view is not damaged"
            elif is_without_room(error, *folders):
                why, remedy = why_not(error, *folders), "It goes on by itself then"
            raise ViewUnavailable(
                f"cannot {what} the view of the registry {self.path}: {why}. {remedy}. The ledgers have all"
                " of it"
            ) from error

    def _connect(self) -> sqlite3.Connection:
        private_file(self.path)
        db = sqlite3.connect(self.path, isolation_level=None, timeout=10)
        db.text_factory = lambda content: content.decode(errors="replace")  # checksums tell
        try:
            keep_transactions(db)  # files are removed after one
            (version,) = db.execute("PRAGMA user_version").fetchone()
            if not version:
                db.executescript(_SCHEMA)  # a new file has none, or else it is damaged
            if version in (0, FORMAT):
                return db
            why: object = f"its format is {version}, this Photon knows {FORMAT}"
        except (sqlite3.Error, UnicodeDecodeError) as error:  # SQLite's words about damage may be no text
            why = error
            if not _is_damage(error):
                db.close()
                raise
        db.close()
        log.warning(_ANEW, self.path, why)
        self._remove_database()
        return self._connect()

    def _remove_database(self) -> None:
        for suffix in ("", "-wal", "-shm"):
            self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)

    def _begin_anew(self) -> None:
        self._replaced |= self.listed
        self._saved, self.listed, self._view = {}, set(), None
        self._db.close()
        self._remove_database()
        self._db = self._connect()
        self._note_process(is_at_work=True)

    def _note_process(self, is_at_work: bool) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        self._db.execute("DELETE FROM process")
        self._db.execute("INSERT INTO process VALUES (?)", (is_at_work,))
        self._db.execute("COMMIT")

    # -- saving

    def _stored(self, generation: int, run: HashRun) -> HashRun:
        """The run with its file, which is written if there is none."""
        if run.file is not None:
            return run
        return open_run(write_run(self.runs_folder, f"{generation}-{secrets.token_hex(8)}", run))

    def _put(self, view: View, runs: Mapping[int, list[HashRun]]) -> dict[LedgerId, _Saved]:
        saved = {ledger: self._put_claimants(view, ledger) for ledger in view.states}
        for ledger in self._saved.keys() - saved.keys():
            self._db.execute("DELETE FROM claimants WHERE generation = ? AND number = ?", ledger)
        content = json.dumps(
            {
                "register": encode_register(view.register).decode(),
                "ledgers": [
                    [*ledger, _encoded(state), saved[ledger].digest.hex()]
                    for ledger, state in view.states.items()
                ],
                "runs": [
                    [generation, run.file.name, len(run)]
                    for generation, some in runs.items()
                    for run in some
                    if run.file is not None
                ],
            }
        )
        unclosed = b"".join(map(_columns_of, view.states.values()))
        self._db.execute("DELETE FROM view")
        row = (content, unclosed, _digest(content.encode(), unclosed))
        self._db.execute("INSERT INTO view VALUES (?, ?, ?)", row)
        return saved

    def _put_claimants(self, view: View, ledger: LedgerId) -> _Saved:
        before = self._saved.get(ledger, _Saved())
        claimants = view.claimants.pack(ledger, before.next_position)
        digest = before.digest
        if claimants:
            row = (*ledger, before.next_position, claimants)
            self._db.execute("INSERT INTO claimants VALUES (?, ?, ?, ?)", row)
            digest = _digest(digest, claimants)
        return _Saved(view.states[ledger].next_position, digest)

    # -- loading

    def _load(self, incarnation: int, writer: str, compares_checksums: bool = False) -> View | None:
        """The stored view; None if nothing is stored. _Unusable, RunDamaged, FormatTooNew, sqlite3.Error."""
        columns = f"{_as_stored('content')}, {_as_stored('unclosed')}, digest"
        row = self._db.execute(f"SELECT {columns} FROM view").fetchone()
        if row is None:
            return None
        if _digest(*row[:2]) != row[2]:
            raise _Unusable("the checksum of its contents does not agree")
        content, unclosed = json.loads(row[0]), BytesIO(row[1])
        register = decode_register(content["register"].encode())
        if register.incarnation < incarnation:  # above it is a registry that was put back: `note` refuses it
            raise _Unusable(f"it is of incarnation {register.incarnation}, the registry's is {incarnation}")
        view = View(register, writer)
        saved = {}
        for generation, number, state, digest in content["ledgers"]:
            ledger = LedgerId(generation, number)
            view.states[ledger] = _decoded(ledger, state, unclosed)
            saved[ledger] = _Saved(view.states[ledger].next_position, bytes.fromhex(digest))
            self._load_claimants(view, ledger, saved[ledger])
        for generation, name, holds in content["runs"]:
            run = open_run(RunFile(self.runs_folder, name, holds), compares_checksums)
            view.holds.replace(generation, [*view.holds.runs(generation), run])
        self._saved, self.listed = saved, {file.name for file in view.holds.files}
        return view

    def _load_claimants(self, view: View, ledger: LedgerId, saved: _Saved) -> None:
        of_ledger = "WHERE generation = ? AND number = ? ORDER BY first"
        rows = self._db.execute(f"SELECT {_as_stored('content')} FROM claimants {of_ledger}", ledger)
        packed, digest = [content for (content,) in rows], b""
        for claimants in packed:
            digest = _digest(digest, claimants)
        if digest != saved.digest:
            raise _Unusable(f"what it has of ledger {ledger} does not agree with its checksum")
        for claimants in packed:
            view.claimants.unpack(ledger, claimants)


class _StoredView(ViewStore):
    """The view that another process stores, opened to be read once: nothing is written, made or removed."""

    def __init__(self, folder: Path, runs: Location) -> None:
        """sqlite3.Error."""
        self.path = folder / VIEW_FILE
        self.runs_folder = runs
        self._db = sqlite3.connect(f"{self.path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        self._db.text_factory = lambda content: content.decode(errors="replace")

    def view(self, register: Register, writer: str) -> View | None:
        """_Unusable, RunDamaged, FormatTooNew, sqlite3.Error, RegistryMismatch."""
        self._db.execute("BEGIN")  # all of it as it was at one moment
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if version != FORMAT:
            raise _Unusable(f"its format is {version}, this Photon knows {FORMAT}")
        view = self._load(register.incarnation, writer)
        if view is not None:
            view.note(register)
            for generation in view.holds.generations:  # their process may remove the files
                runs = view.holds.runs(generation)
                view.holds.replace(generation, [replace(run, file=None) for run in runs])
        return view


def read_stored(folder: Path, runs: Location, register: Register, writer: str) -> View | None:
    """The view that another process stores there, under the register as it is now; None if it is of no use.

    Its process may replace runs meanwhile: then it is read once more. RegistryMismatch as `ViewStore.load`.
    """
    for _ in range(READ_TRIES):
        try:
            with closing(_StoredView(folder, runs)) as stored:
                return stored.view(register, writer)
        except (_Unusable, RunDamaged, FormatTooNew, sqlite3.Error, UnicodeDecodeError, OSError) as error:
            log.info("the view in %s is not read: %s", folder, error)
    return None


def read_so_far(folder: Path) -> tuple[int, int]:
    """The incarnation that a stored view has read, and how many positions; zeros if it can't be read."""
    try:
        with closing(_StoredView(folder, folder)) as stored:
            row = stored._db.execute("SELECT content FROM view").fetchone()
            content = json.loads(row[0])
            positions = sum(state["next_position"] for _, _, state, _ in content["ledgers"])
            return json.loads(content["register"])["incarnation"], positions
    except (sqlite3.Error, OSError, ValueError, LookupError, TypeError):
        return 0, 0


def _is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether what SQLite says is the fault of the file, and not of its disk, rights or another process."""
    if isinstance(error, UnicodeDecodeError):
        return True
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 255 not in _NOT_OF_THE_FILE


def _digest(*parts: bytes) -> bytes:
    """A digest of these parts, none of which can pass for a piece of another."""
    each = b"".join(blake2b(part, digest_size=16).digest() for part in parts)
    return blake2b(each, digest_size=16).digest()


def _as_stored(column: str) -> str:
    """The bytes of a column, whatever type it has by now: a flipped bit may have made a text of them."""
    return f"CAST(coalesce({column}, '') AS BLOB)"


# -- a ledger's state: numbers and flags as they are, and the columns of what is unclosed

_UNCLOSED = {"hashes": "<u8", "files": "<u4", "offsets_bytes": "<i8"}  # columns


def _encoded(state: LedgerState) -> dict[str, Any]:
    """A ledger's state, but for its name and the columns of what is unclosed."""
    return {
        **{one.name: getattr(state, one.name) for one in fields(state) if one.name != "ledger"},
        "checksum": state.checksum.hex(),
        "void_through": [[*epoch, batch] for epoch, batch in state.void_through.items()],
        "over": dict(state.over),
        "release": state.release and [state.release.number, state.release.content.decode()],
        "unclosed": [[*at, one.claimant, len(one)] for at, one in state.unclosed.items()],
    }


def _columns_of(state: LedgerState) -> bytes:
    """The columns of what is unclosed, entry by entry."""
    return b"".join(
        np.asarray(getattr(one, name), dtype).tobytes()
        for one in state.unclosed.values()
        for name, dtype in _UNCLOSED.items()
    )


def _decoded(ledger: LedgerId, stored: Mapping[str, Any], columns: BytesIO) -> LedgerState:
    """The inverse of `_encoded` and `_columns_of`; it reads its part of the columns."""

    def column(name: str, length: int) -> npt.NDArray[Any]:
        dtype = np.dtype(_UNCLOSED[name])
        return np.frombuffer(columns.read(length * dtype.itemsize), dtype)

    unclosed = {}
    for origin, position, (epoch, batch, plan), length in stored["unclosed"]:
        claimant = Claimant(Epoch(*epoch), batch, plan)
        hashes = column("hashes", 2 * length).reshape(-1, 2)
        one = Unclosed(claimant, hashes, column("files", length), column("offsets_bytes", length))
        unclosed[LedgerId(*origin), position] = one
    release = stored["release"]
    others = {
        "ledger": ledger,
        "checksum": bytes.fromhex(stored["checksum"]),
        "void_through": {Epoch(name, number): batch for name, number, batch in stored["void_through"]},
        "unclosed": unclosed,
        "release": release and NumberedRelease(release[0], release[1].encode()),
    }
    return LedgerState(**{**stored, **others})
