"""Why a local registry gives no answer, with the remedy; pure, but for looks at owners and modes."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import sqlite3
import stat
from pathlib import Path

from photon.process.pages import page
from photon.registry.stores.copies import NoReply, NoReplyKind

# Servers of an earlier Photon kept the local registry in these files.
OLD_SERVERS = ("dynoxide.db", "shared-local-instance.db")
BUSY_FOR_SECONDS = 1.0  # many writers take less: after so long the lock's holder hangs
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DENIED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_PRIMARY_CODE = 0xFF  # SQLite's extended codes have the primary one in their lowest byte
_LOST = f'{page("docs/operations/backups.md")}, "A lost registry"'


class NoAnswer(Exception):
    """The local registry gave no answer: `reply` says why."""

    def __init__(self, reply: NoReply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


def of_error(path: Path, error: sqlite3.Error) -> NoReply:
    """Why SQLite failed before a commit: nothing has changed."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & _PRIMARY_CODE
    told = f"{path}: {error}"
    if code in _BUSY:
        return NoReply(f"{told}: another program has it open, such as sqlite3: end that", "throttled")
    if code in _DAMAGED:
        return NoReply(
            f"{told} (SQLite {sqlite3.sqlite_version}): the file is damaged; put a backup of the folder back:"
            f" {_LOST}",
            "unreachable",
        )
    why = _why_denied(path)
    if code in _DENIED or (code == sqlite3.SQLITE_CANTOPEN and why):
        return NoReply(f"{told}{why}", "denied")
    if code == sqlite3.SQLITE_CANTOPEN:
        return NoReply(told, "unreachable")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        name = getattr(error, "sqlite_errorname", "")
        return NoReply(f"{told} ({name}): make room on the disk of {path.parent}, or look at that disk")
    return NoReply(told)


def at_commit(path: Path, error: Exception) -> NoReply:
    """Why a commit failed. Whether it took effect is decided by the next process that opens the file."""
    told = of_error(path, error).reason if isinstance(error, sqlite3.Error) else out_of_memory().reason
    return NoReply(f"the commit failed: {told}")


def out_of_memory() -> NoReply:
    """SQLite got no memory: Python raises MemoryError then, and no error of SQLite."""
    return NoReply("this process may not have more memory (ulimit -v): raise its limit", "throttled")


def no_turn(missed: str, waited_seconds: float) -> NoReply:
    """The lock was never free: others wrote all the time, or its holder hangs."""
    kind: NoReplyKind = "unreachable" if waited_seconds >= BUSY_FOR_SECONDS else "throttled"
    return NoReply(f"no turn within {waited_seconds:.1f} s: {missed}", kind)


def another_user(path: Path, error: OSError) -> NoReply:
    """Why the system refuses the file or its folder: often they are another user's."""
    is_denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    kind: NoReplyKind = "denied" if is_denied else "unreachable"
    return NoReply(f"{error.filename or path}: {error.strerror}{_why_denied(path)}", kind)


def gone(path: Path) -> NoReply:
    """The file was made once, and is missing."""
    return NoReply(f"there is no {path}: put its folder back ({_LOST})", "unreachable")


def replaced(path: Path, kind: NoReplyKind) -> NoReply:
    """Another file took the registry's place during a transaction."""
    return NoReply(f"{path} was replaced while it was in use", kind)


def linked(path: Path) -> NoReply:
    """Two names share a file, but SQLite keeps a journal beside each of them."""
    return NoReply(f"{path} has a second name (a hard link, as cp -l makes): remove that one", "unreachable")


def no_registry(path: Path, found: str) -> NoReply:
    """The file is another program's, or a newer Photon's."""
    return NoReply(f"{path} is no registry that this Photon knows (it says {found}): {_LOST}", "unreachable")


def on_network(folder: Path, kind: str) -> NoReply:
    """A network file system may not lock for all machines, and a sync may not reach its disk."""
    return NoReply(
        f"{folder} is on a network file system ({kind}), where a local registry loses claims: put the "
        "pipeline file on a disk of this machine, or name `endpoints` in it",
        "unreachable",
    )


def old_server(folder: Path) -> NoReply | None:
    """Why joins are refused beside a server's file: nothing here reads its ids. None: no such file."""
    old = next((folder / name for name in OLD_SERVERS if (folder / name).exists()), None)
    if old is None:
        return None
    away = f"mv {shlex.quote(str(folder))} {shlex.quote(f'{folder}.old')}"
    return NoReply(
        f"{old} is the registry of an earlier Photon, which this one can't read. Stop every datacenter, move "
        f"it away ({away}), then make an empty registry and put the ids of all rows into it: {_LOST}",
        "unreachable",
    )


def _why_denied(path: Path) -> str:
    """Tell what keeps this user out, with the remedy; empty: nothing does. What is within may be hidden."""
    needed = os.R_OK | os.W_OK  # of the file and its folder, or of the innermost folder in sight
    for each in (path, *path.parents):
        try:
            found, is_protected = os.stat(each), os.statvfs(each).f_flag & os.ST_RDONLY
        except OSError:
            continue
        if needed and is_protected:
            return f" (the disk of {each} is mounted read-only: mount it so that it can be written)"
        is_folder = stat.S_ISDIR(found.st_mode)
        if not os.access(each, needed | os.X_OK if is_folder else needed, effective_ids=True):
            return f" ({each} {_owner_and_mode(found)}; {_remedy(each, found)})"
        needed = 0 if is_folder else needed
    return ""


def _owner_and_mode(found: os.stat_result) -> str:
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = str(found.st_uid)
    return f"belongs to {owner}, mode {stat.S_IMODE(found.st_mode):04o}"


def _remedy(path: Path, found: os.stat_result) -> str:
    if found.st_uid == os.geteuid():
        return f"run: chmod u+rwX {shlex.quote(str(path))}"
    return "run as that user, or name `endpoints` for several"
