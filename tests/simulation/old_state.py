"""A dispatcher's database as an older Photon left it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from photon.dispatcher.state import STATE_FILE


def make_it_of_0_1_0(state: Path) -> None:
    """Take from a database what came after Photon 0.1.0."""
    with closing(sqlite3.connect(state / STATE_FILE)) as db:
        db.execute("ALTER TABLE plan DROP COLUMN attempts")
        db.execute("ALTER TABLE files DROP COLUMN disk_bytes")
        db.execute("DROP TABLE segments")
        db.execute("DROP TABLE lost")
        db.execute("UPDATE meta SET value = '1' WHERE key = 'format'")
        db.commit()
