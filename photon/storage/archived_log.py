"""The archive of a table's log: it keeps commits for a week after they left the log, in bundles beside it.

Delta lists the whole log at each commit, so Photon keeps entries there for minutes only. Verification looks
further back, and so does a process that asks which plan committed a batch: both find the entries here.
Bundles also say which data files left the table when, so that tombstones need not stay in its checkpoints.
Entries are put here before they go from the log, byte for byte, so their digests stay as they were.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from photon.pipeline.location import Location
from photon.storage.delta import log_entry
from photon.storage.store import store_of
from photon.storage.store_errors import tells_of_damage

FOLDER = "_archived_log"  # Delta's own vacuum leaves alone folders that begin with _
_COLUMNS = pa.schema([("version", pa.int64()), ("entry", pa.binary()), ("removed", pa.list_(pa.string()))])
# How many entries a process keeps in memory, and the longest of them: minutes of batches, of 2 KB each.
MOST_KEPT, MOST_KEPT_BYTES = 500, 2**14
_BUNDLE = re.compile(r"(\d{20})-(\d{20})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class Bundle:
    """The entries of some versions that follow one another, in one file."""

    first: int
    last: int

    @property
    def name(self) -> str:
        return f"{self.first:020d}-{self.last:020d}.parquet"


class BundleDamaged(OSError):
    """A bundle can't be read; the message names it and says what to do."""


def runs_of(versions: Sequence[int]) -> list[Bundle]:
    """The bundles that these ascending versions make: one for each run without a gap."""
    runs: list[Bundle] = []
    for version in versions:
        if runs and version == runs[-1].last + 1:
            runs[-1] = Bundle(runs[-1].first, version)
        else:
            runs.append(Bundle(version, version))
    return runs


class ArchivedLog:
    """The archive of one table. OSError where the lake does not answer."""

    def __init__(self, folder: Location) -> None:
        self._folder = folder / FOLDER
        self._table, self._store = store_of(folder), store_of(self._folder)

    def bundles(self) -> list[Bundle]:
        """All bundles, the oldest first."""
        found = (_BUNDLE.fullmatch(name) for name in self._store.names())
        return sorted(Bundle(int(one[1]), int(one[2])) for one in found if one is not None)

    def add(self, versions: Sequence[int]) -> None:
        """Put these entries of the log, of ascending versions, on disk. FileNotFoundError if one is gone.

        Other bundles may have some of them: a pass was killed before it removed them from the log, another
        one runs just now, or an older copy of the table was put over this one. They go, and the new bundles
        have their other entries too.
        """
        if not versions:
            return
        entries = {version: self._table.read(log_entry(version)) for version in versions}
        others = [one for one in self.bundles() if one.last >= versions[0] and one.first <= versions[-1]]
        for other in others:
            entries = {**self.entries(other), **entries}
        self._store.make()
        runs = runs_of(sorted(entries))
        for run in runs:
            self._put(run, entries)
        self._store.sync("")
        self._table.sync("")
        self._store.remove(*(other.name for other in others if other not in runs))

    def _put(self, run: Bundle, entries: Mapping[int, bytes]) -> None:
        versions = range(run.first, run.last + 1)
        made = [{"version": v, "entry": entries[v], "removed": removed_by(entries[v])} for v in versions]
        rows = pa.Table.from_pylist(made, _COLUMNS)
        self._store.put(run.name, lambda sink: pq.write_table(rows, sink, compression="zstd"))

    def entries(self, bundle: Bundle) -> dict[int, bytes]:
        """The bundle's entries by version. BundleDamaged."""
        rows = self._read(bundle, "version", "entry")
        return dict(zip(rows["version"].to_pylist(), rows["entry"].to_pylist(), strict=True))

    def removed(self, bundle: Bundle) -> list[str]:
        """The data files that left the table by its commits. BundleDamaged."""
        return [path for paths in self._read(bundle, "removed")["removed"].to_pylist() for path in paths]

    def _read(self, bundle: Bundle, *columns: str) -> pa.Table:
        with self._store.open(bundle.name) as source:
            try:
                return pq.read_table(source, columns=list(columns))
            except (OSError, ValueError) as error:
                if not tells_of_damage(error):
                    raise
                raise BundleDamaged(
                    f"{self._folder / bundle.name} is damaged, expected old commits of the table: put it "
                    "back from a copy, or remove it; the next verification then reads the whole table"
                ) from error

    def changed_us(self, bundle: Bundle) -> int:
        """When the bundle was written: its commits are older."""
        return self._store.changed_us(bundle.name)

    def remove(self, bundle: Bundle) -> None:
        self._store.remove(bundle.name)


class LogEntries:
    """A table's commits by version: from its log, and behind it from the archive.

    Entries never change: those that were read are kept for a while, until `forget` at most.
    """

    def __init__(self, folder: Location) -> None:
        self._folder, self._store, self._archive = folder, store_of(folder), ArchivedLog(folder)
        self._bundled: dict[int, bytes] = {}
        self._kept: dict[int, bytes] = {}

    def keep(self, version: int, entry: bytes) -> bytes:
        """Keep a small entry for `read`, and return it; the oldest goes beyond `MOST_KEPT`."""
        if len(entry) <= MOST_KEPT_BYTES:
            self._kept[version] = entry
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        return entry

    def forget(self) -> None:
        """Forget all entries that were read: another table may lie there."""
        self._kept, self._bundled = {}, {}

    def read(self, version: int) -> bytes:
        """The entry of a version. FileNotFoundError if neither log nor archive has it; OSError."""
        if (entry := self._kept.get(version, self._bundled.get(version))) is not None:
            return entry
        with suppress(FileNotFoundError):
            return self.keep(version, self._store.read(log_entry(version)))
        for bundle in reversed(self._archive.bundles()):
            if bundle.first <= version <= bundle.last:
                self._bundled = self._archive.entries(bundle)
                if version in self._bundled:
                    return self._bundled[version]
        raise FileNotFoundError(log_entry(version))

    def actions(self, version: int) -> list[dict[str, Any]]:
        """Read the actions of a commit. FileNotFoundError if neither has it; OSError."""
        try:
            return [json.loads(line) for line in self.read(version).splitlines()]
        except ValueError as error:
            where = self._folder / log_entry(version)
            raise OSError(f"{where} is no commit of Delta: {error}") from None


def info_of(actions: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """A commit's own information: who made it, and with which operation."""
    return next((action["commitInfo"] for action in actions if "commitInfo" in action), {})


def commits(folder: Location, version: int) -> Iterator[dict[str, Any]]:
    """Each commit's own information, from this version back, as far as there are entries. OSError.

    delta-rs's own `history` stops all threads of the process until the store answers.
    """
    entries = LogEntries(folder)
    for number in range(version, -1, -1):
        try:
            yield info_of(entries.actions(number))
        except FileNotFoundError:  # older than a week
            return


def removed_by(entry: bytes) -> list[str]:
    """The data files that a commit removed, by path."""
    actions = (json.loads(line) for line in entry.splitlines() if b'"remove"' in line)
    return [unquote(action["remove"]["path"]) for action in actions if "remove" in action]
