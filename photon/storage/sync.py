"""Files and folders that outlast a power cut (protocol A18). Object stores do as much by themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO


def write_synced(target: Path, write: Callable[[BinaryIO], None]) -> None:
    """Have `write` fill a new file, and sync it. OSError removes what is there of it; FileExistsError.

    Its name is on disk once its folder is synced too.
    """
    with target.open("xb") as sink:
        try:
            write(sink)
            sink.flush()
            os.fsync(sink.fileno())
        except OSError:
            target.unlink(missing_ok=True)
            raise


def sync(path: Path) -> None:
    """Put what is in this file, or the names in this folder, on disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
