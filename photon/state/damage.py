"""A dispatcher's database that is damaged: said as what it is, with what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from photon.errors import UserError
from photon.state.database import STATE_FILE, StateUnavailable

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_CODE_BITS = 0xFF  # SQLite's extended codes name the kind in these bits


class StateDamaged(UserError):
    """The database is not what was written: no wait and no other try will mend it."""


@contextmanager
def damage_is_named(state: Path) -> Iterator[None]:
    """Raise what SQLite finds damaged in this state folder as StateDamaged."""
    try:
        yield
    except (sqlite3.DatabaseError, StateUnavailable) as error:
        cause = error.__cause__ if isinstance(error, StateUnavailable) else error
        if getattr(cause, "sqlite_errorcode", 0) & _CODE_BITS not in _DAMAGED:
            raise
        raise StateDamaged(
            f"the state {state / STATE_FILE} is damaged ({cause}): put a copy of the folder {state} back, or "
            "move it away; then the next start begins a new epoch and reads the logs again, and nothing is "
            "joined twice"
        ) from error
