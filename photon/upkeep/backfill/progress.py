"""A rebuild's notes in the state folder: who runs, which run it is, and how far it is.

A run that was killed goes on if it is started again for the same days, with the same adapter. These files may
be removed at any time: then all data files are looked at again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from photon.process.errors import FormatTooNew, UserError
from photon.process.operating_system import HeldByAnother, held_alone
from photon.storage.store import content
from photon.storage.sync import sync, write_synced
from photon.storage.tokens import new_id
from photon.upkeep.backfill.messages import RowTally
from photon.upkeep.backfill.yielding import FOLDER
from photon.verification.days import Window

LOCK, RUN, PAGES = "lock", "run.json", "pages.jsonl"
RUN_FORMAT = 1


class BackfillRunning(UserError):
    """Another process rebuilds this datacenter's table."""


@contextmanager
def only_one(state: Path, datacenter: str) -> Iterator[Path]:
    """The folder of the rebuilds of a datacenter, for one process at a time. BackfillRunning, OSError.

    The kernel frees it when the process ends. The table's own version stops whoever goes on without it.
    """
    folder = state / FOLDER
    try:
        with held_alone(folder / LOCK):
            yield folder
    except HeldByAnother as error:
        raise BackfillRunning(
            f"process {error.process or 'unknown'} rebuilds rows of datacenter {datacenter} already "
            f"(lock {folder / LOCK}); wait for its end, or stop it: what it has done stays done"
        ) from None


@dataclass(frozen=True)
class PageNote:
    """The result of one page. `number`: its commit; None: nothing was to be replaced."""

    number: int | None
    files: tuple[str, ...]
    tally: RowTally


@dataclass
class BackfillProgress:
    """The run that is in a folder of `only_one`, and its pages so far."""

    folder: Path
    run: str
    pages: list[PageNote]
    went_on: bool

    @classmethod
    def open(
        cls, folder: Path, window: Window, fingerprint: str, committed: int, writes: bool
    ) -> BackfillProgress:
        """The run of these days that was not finished; else a new one. OSError, FormatTooNew.

        `committed`: the number of the table's last replacement. A page with a later one was not committed.
        Without `writes` the run of other days is left as it is.
        """
        wanted = {"start_us": window.start_us, "end_us": window.end_us, "fingerprint": fingerprint}
        found = _read_run(folder / RUN)
        if found is not None and {name: found.get(name) for name in wanted} == wanted:
            return cls(folder, found["run"], _read_pages(folder / PAGES, committed), True)
        if not writes:
            return cls(folder, new_id(), [], False)
        clear(folder)
        text = json.dumps({"format": RUN_FORMAT, "run": new_id(), **wanted}).encode()

        write_synced(folder / RUN, content(text))
        sync(folder)
        return cls(folder, json.loads(text)["run"], [], False)

    @property
    def done(self) -> set[str]:
        """The files that are done: replaced, or looked at and left as they were."""
        return {path for page in self.pages for path in page.files}

    @property
    def tally(self) -> RowTally:
        return sum((page.tally for page in self.pages), RowTally())

    def note(self, page: PageNote) -> None:
        """Remember a page, before its commit: then the table tells whether that took place. OSError."""
        line = json.dumps({**asdict(page), "files": list(page.files)}) + "\n"
        with (self.folder / PAGES).open("ab") as file:
            file.write(line.encode())
            file.flush()
            os.fsync(file.fileno())
        self.pages.append(page)

    def end(self) -> None:
        """Forget the run: all of it is done."""
        clear(self.folder)


def clear(folder: Path) -> None:
    """Forget what run there is. The run goes first: its pages alone say nothing."""
    for name in (RUN, PAGES):
        (folder / name).unlink(missing_ok=True)


def _read_run(path: Path) -> dict[str, str] | None:
    try:
        data: dict[str, str] = json.loads(path.read_text())
    except (FileNotFoundError, ValueError):
        return None
    if int(data.get("format", 0)) > RUN_FORMAT:
        raise FormatTooNew(path, int(data["format"]), RUN_FORMAT)
    return data


def _read_pages(path: Path, committed: int) -> list[PageNote]:
    """The pages that were committed, the last note of each. A note that is not whole is none."""
    found: dict[object, PageNote] = {}
    with open(path if path.exists() else os.devnull, "rb") as file:
        for place, line in enumerate(file):
            if not line.endswith(b"\n"):
                break
            data = json.loads(line)
            page = PageNote(data["number"], tuple(data["files"]), RowTally(**data["tally"]))
            if page.number is None or page.number <= committed:
                found[place if page.number is None else f"#{page.number}"] = page
    return list(found.values())
