"""A process of its own that stands in the middle of a transaction of a local registry."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# It has changed something, and commits once it is told to.
_WRITER = """
import sys
from pathlib import Path
from photon.registry.stores.sqlite.file import RegistryFile

def change(connection):
    connection.execute("UPDATE stores SET touched = zeroblob(1000)")
    print("writing", flush=True)
    sys.stdin.readline()

RegistryFile(Path(sys.argv[1])).ask(change, 60)
print("committed", flush=True)
sys.stdin.readline()
"""


@contextmanager
def writing(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run one, which commits once it reads a line; killed at the end."""
    command = [sys.executable, "-c", _WRITER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "writing\n"
            yield process
        finally:
            process.kill()


@contextmanager
def writing_in(folder: Path) -> Iterator[int]:
    """Run one, and yield the number of its process."""
    with writing(folder) as process:
        yield process.pid
