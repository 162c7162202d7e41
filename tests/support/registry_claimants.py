"""Processes that claim positions of one ledger of a local registry, and note what they were told is theirs.

They come from a server that has imported everything before, so that many of them can be killed.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from photon.process.lifeline import end_with
from photon.registry.address import EndpointAddress
from photon.registry.stores.copies import Done, Insert, Key, Prepare
from photon.registry.stores.sqlite.endpoint import SqliteEndpoint
from photon.registry.stores.sqlite.file import RegistryFile

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload([__name__])
ENTRY_BYTES = 20_000
MOST_SECONDS = 0.4  # of a claimant that is killed
SEED = 8


def _claim(folder: Path, note: Path, seed: int) -> None:
    """Claim one position after the other, and beside it what commands and signs of life do."""
    end_with(os.getppid())
    chance = random.Random(seed)
    endpoint = SqliteEndpoint(EndpointAddress(folder), timedelta(seconds=60))
    store = endpoint.store(endpoint.directory.ensure_table_of("events"))
    sql = "SELECT max(position) FROM items WHERE ledger = '1.0-0'"
    last = RegistryFile(folder).ask(lambda connection: connection.execute(sql).fetchone()[0], 60) or 0
    with note.open("ab", buffering=0) as told:
        for position in range(last, 1_000_000):
            value = b"%d of claimant %d " % (position, seed)
            reply = store.insert(Insert(Key("1.0-0", position), value.ljust(ENTRY_BYTES)))
            if reply == Done():
                told.write(value + b"\n")
            aside = chance.random()
            if aside < 0.1:
                store.beat(Key("beat.east", 1), position)
            elif aside < 0.2:
                store.prepare(Prepare(Key("register", 0), f"z{position:020}-{seed}"))
            elif aside < 0.25:
                store.touch()
            elif aside < 0.3:
                store.forget(f"1.{seed}-9")
            elif aside < 0.32:
                endpoint.directory.ensure_table_of(f"other-{seed}")


@contextmanager
def claiming(folder: Path, at_once: int, kills: int = 0) -> Iterator[list[Path]]:
    """Run so many at once: their notes. Killed at the end, or, with `kills`, one after the other."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    notes = Path(tempfile.mkdtemp(prefix="photon-claimants-"))
    made: list[Path] = []

    def start() -> Any:
        made.append(notes / str(len(made)))
        made[-1].touch()
        process = FORKS.Process(target=_claim, args=(folder, made[-1], len(made)), daemon=True)
        process.start()
        return process

    running = [start() for _ in range(at_once)]
    try:
        for killed in range(1, kills + 1):
            time.sleep(chance.uniform(0, MOST_SECONDS) / at_once)
            process = running.pop(0)
            assert process.exitcode is None, f"a claimant ended by itself: {process.exitcode}"
            process.kill()
            process.join()
            if killed <= kills - at_once:
                running.append(start())
        yield made
    finally:
        for process in running:
            process.kill()
            process.join()
        _claims.update({str(note): _read(note) for note in made})
        shutil.rmtree(notes)


_claims: dict[str, dict[int, bytes]] = {}  # of those that have ended


def _read(note: Path) -> dict[int, bytes]:
    whole = note.read_bytes().rpartition(b"\n")[0].splitlines()
    return {int(line.split()[0]): line for line in whole}


def claimed_by(notes: list[Path]) -> dict[str, dict[int, bytes]]:
    """The positions that each was told are its own, with their values."""
    return {str(note): _read(note) if note.exists() else _claims[str(note)] for note in notes}
