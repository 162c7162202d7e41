"""What keeps a local registry from an answer, with the remedy; pure, but for looks at owners and modes."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import sqlite3
import stat
from contextlib import suppress
from pathlib import Path

from photon.registry.stores.copies import NoReply, NoReplyKind

# Servers kept the local registry before, under these names.
OLD_SERVERS = ("dynoxide.db", "shared-local-instance.db")
BUSY_FOR_SECONDS = 1.0  # a lock that is missed for longer is no crowd
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_DENIED = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH)
_PRIMARY_CODE = 0xFF  # SQLite's codes have finer ones in their upper bits
_LOST = 'docs/operations/backups.md, "A lost registry"'


class NoAnswer(Exception):
    """There is no answer: `reply` says why."""

    def __init__(self, reply: NoReply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


def of_error(path: Path, error: sqlite3.Error) -> NoReply:
    """Why SQLite raises an error before a commit: nothing is changed."""
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
    if code in _DENIED or (code == sqlite3.SQLITE_CANTOPEN and not _may_use(path)):
        return NoReply(f"{told}{_owner_of(path)}", "denied")
    if code == sqlite3.SQLITE_CANTOPEN:
        return NoReply(told, "unreachable")
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        name = getattr(error, "sqlite_errorname", "")
        return NoReply(f"{told} ({name}): make room on the disk of {path.parent}, or look at that disk")
    return NoReply(told)


def at_commit(path: Path, error: Exception) -> NoReply:
    """Nobody knows whether a commit took effect that failed: the next one to open the file decides it."""
    told = of_error(path, error).reason if isinstance(error, sqlite3.Error) else out_of_memory().reason
    return NoReply(f"the commit failed: {told}")


def out_of_memory() -> NoReply:
    """SQLite's word for it is Python's error."""
    return NoReply("this process may not have more memory (ulimit -v): raise its limit", "throttled")


def no_turn(missed: str, waited_seconds: float) -> NoReply:
    """Others wrote all the time, or one of them stands still."""
    kind: NoReplyKind = "unreachable" if waited_seconds >= BUSY_FOR_SECONDS else "throttled"
    return NoReply(f"no turn within {waited_seconds:.1f} s: {missed}", kind)


def another_user(path: Path, error: OSError) -> NoReply:
    """Why the system does not let us use the file or its folder."""
    is_denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
    kind: NoReplyKind = "denied" if is_denied else "unreachable"
    return NoReply(f"{error.filename or path}: {error.strerror}{_owner_of(path)}", kind)


def gone(path: Path) -> NoReply:
    """It was made, and is not there."""
    return NoReply(f"there is no {path}: put its folder back ({_LOST})", "unreachable")


def replaced(path: Path, kind: NoReplyKind) -> NoReply:
    """Another file took its place during a transaction."""
    return NoReply(f"{path} was replaced while it was in use", kind)


def linked(path: Path) -> NoReply:
    """A copy by hard links shares the file, and not its journal."""
    return NoReply(f"{path} has a second name (a hard link, as cp -l makes): remove that one", "unreachable")


def no_registry(path: Path, found: str) -> NoReply:
    """Another program's file, or that of a newer Photon."""
    return NoReply(f"{path} is no registry that this Photon knows (it says {found}): {_LOST}", "unreachable")


def on_network(folder: Path, kind: str) -> NoReply:
    """Locks do not hold there for all machines, nor is a sync one."""
    return NoReply(
        f"{folder} is on a network file system ({kind}), where a local registry loses claims: put the "
        "pipeline file on a disk of this machine, or name `endpoints` in it",
        "unreachable",
    )


def old_server(folder: Path) -> NoReply | None:
    """Why nobody joins where a server's data is: nothing here reads the ids in it. None: there is none."""
    old = next((folder / name for name in OLD_SERVERS if (folder / name).exists()), None)
    if old is None:
        return None
    away = f"mv {shlex.quote(str(folder))} {shlex.quote(f'{folder}.old')}"
    return NoReply(
        f"{old} is the registry of an earlier Photon, which this one can't read. Stop every datacenter, move "
        f"it away ({away}), then make an empty registry and put the ids of all rows into it: {_LOST}",
        "unreachable",
    )


def _owner_of(path: Path) -> str:
    """Tell owner and mode of what is in the way of this user."""
    with suppress(OSError):
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return " (its disk is mounted read-only)"
    for each in (path, path.parent):
        with_mode = _mode_of(each)
        if with_mode is not None and not os.access(each, os.R_OK | os.W_OK):
            return f" ({each} {with_mode}; run as that user, or name `endpoints` for several)"
    return ""


def _mode_of(path: Path) -> str | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    try:
        owner = pwd.getpwuid(found.st_uid).pw_name
    except KeyError:
        owner = str(found.st_uid)
    return f"belongs to {owner}, mode {stat.S_IMODE(found.st_mode):04o}"


def _may_use(path: Path) -> bool:
    return os.access(path.parent, os.W_OK | os.X_OK) and os.access(path, os.R_OK | os.W_OK)
