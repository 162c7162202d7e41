"""Databases of SQLite outlast a power cut as files do (protocol A18)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FULL = 2  # SQLite's number for synchronous=FULL
SAYS_HOW_IT_SYNCS = """
import sqlite3, sys
from photon.storage.sync import keep_transactions
db = sqlite3.connect(sys.argv[1])
keep_transactions(db)
print(db.execute("PRAGMA synchronous").fetchone()[0])
"""


def test_a_transaction_is_on_disk_when_it_returns(tmp_path: Path) -> None:
    """In a process of its own: the tests' own one syncs nothing."""
    database = tmp_path / "state.sqlite"
    process = subprocess.run(
        [sys.executable, "-c", SAYS_HOW_IT_SYNCS, str(database)], capture_output=True, text=True, check=True
    )
    assert int(process.stdout) == FULL
