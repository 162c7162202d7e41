"""Commits of others to the tables of a datacenter: rows that they took, changed or added (protocol E11).

Entries are read as they are in the log, since a table whose features nobody can read has them too. A commit
that moves no file is nobody's business here: E9 judges features and columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from photon.pipeline.location import Location
from photon.process.clock import in_iso, in_utc
from photon.process.readable import counted, readable
from photon.storage.archived_log import BundleDamaged, LogEntries, info_of
from photon.storage.changes import NO_COMMIT, Commit
from photon.storage.columns import TableName
from photon.storage.delta import APP_METADATA, BATCH_METADATA, NUMBER_METADATA
from photon.storage.replaced_files import rebuild_app

if TYPE_CHECKING:
    from photon.storage.tables import OutputTable  # a status does without it

# "changed": it may have altered rows. "rewrote": it says that it changed no row. "gone": its entry can't be
# read any more. "replaced": another table, or an older copy, lies there, so the commits since are not those
# that were made.
Kind = Literal["took", "changed", "added", "rewrote", "gone", "replaced"]
# While one of these is open, a row that is not there may be one that others took.
TAKES_ROWS: tuple[Kind, ...] = ("took", "changed", "gone")
_ONLY_TAKES = ("DELETE", "TRUNCATE", "FSCK", "RESTORE")  # operations that alter no row
MOST_LOOKED_AT = 1_000  # entries, by who looks from outside; a release is made before there are so many


@dataclass(frozen=True, slots=True)
class ForeignCommits:
    """Commits of one kind that others made to a table and nobody has decided on, up to the last one.

    `operation`: of the last one, as it says. `since_us`: when the first one was made, by its own clock.
    `release`: the one that has shown the last one first; NO_RELEASE: none has yet.
    """

    table: str
    kind: Kind
    commits: int
    operation: str
    first_version: int
    last_version: int
    since_us: int | None = None
    release: int = NO_COMMIT

    def __str__(self) -> str:
        versions = f"versions {self.first_version} to {self.last_version}"
        if self.kind == "replaced":
            return f"another table, or an older copy, in place of version {self.first_version}"
        if self.kind == "gone":
            return f"nobody knows which commits: their entries ({versions}) are gone from the log"
        last = f"{readable(self.operation)} in version {self.last_version}"
        before = self.commits - 1
        return f"{last}, and {counted(before, 'commit')} of others before it" if before else last

    @property
    def took_joined_rows(self) -> bool:
        """Whether a joined row that is not there may be one that others took."""
        return self.table == "joined_events" and self.kind in TAKES_ROWS

    @property
    def sentence(self) -> str:
        """Tell people what was done to the table, and since when."""
        does = {
            "took": "rows were taken by others",
            "added": "rows were added by others",
            "rewrote": "files were rewritten by others",
        }
        since = "" if self.since_us is None else f" (since {in_utc(self.since_us, 'minutes')})"
        return f"{self.table}: {does.get(self.kind, 'rows were changed by others')}: {self}{since}"

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON has it."""
        return {
            "table": self.table,
            "kind": self.kind,
            "commits": self.commits,
            "operation": self.operation,
            "first_version": self.first_version,
            "last_version": self.last_version,
            "since": None if self.since_us is None else in_iso(self.since_us, "seconds"),
        }


def together(facts: Iterable[ForeignCommits]) -> tuple[ForeignCommits, ...]:
    """Make one of those of one table and kind, the earlier ones first: so there are never many."""
    found: dict[tuple[str, Kind], ForeignCommits] = {}
    for one in facts:
        before = found.get((one.table, one.kind))
        if before is not None:
            first = (before.first_version, before.since_us)
            number = before.commits + one.commits
            one = replace(one, commits=number, first_version=first[0], since_us=first[1])
        found[one.table, one.kind] = one
    return tuple(found[key] for key in sorted(found))


def table_gone(table: str, was: Commit) -> ForeignCommits:
    """The foreign commit that a table's absence stands for: the table was there at a commit, and is gone."""
    return ForeignCommits(table, "replaced", 1, "", was.version, was.version)


def is_photons(
    actions: Sequence[dict[str, Any]], datacenter: str, table: TableName, last: Mapping[str, int]
) -> bool:
    """Whether a commit with files is one that Photon makes to this table of the datacenter.

    `last`: the number of each app's last commit, as far as known. Only a side table has a batch in two.
    """
    transactions = [action["txn"] for action in actions if "txn" in action]
    info = info_of(actions)
    if len(transactions) != 1:
        return False
    app, number = str(transactions[0]["appId"]), int(transactions[0]["version"])
    said = info.get(BATCH_METADATA, info.get(NUMBER_METADATA))
    if info.get(APP_METADATA) != app or said != str(number):
        return False
    if number < last.get(app, number) or (table == "joined_events" and number == last.get(app)):
        return False  # an entry that somebody put behind its original
    if app == rebuild_app(datacenter):
        return table == "joined_events"
    if app == f"photon:{datacenter}:compaction":
        return not _changes_rows(actions)
    says = app.split(":")
    is_batch = len(says) == 4 and says[:2] == ["photon", datacenter] and says[3] == table
    return is_batch and says[2].isdecimal() and not any("remove" in action for action in actions)


def _files(actions: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return [action[kind] for action in actions for kind in ("add", "remove") if kind in action]


def _changes_rows(actions: Iterable[dict[str, Any]]) -> bool:
    return any(file.get("dataChange", True) for file in _files(actions))


@dataclass
class ForeignCommitWatch:
    """Looks for commits of others to one table, each entry once, while it looks from the same commit on."""

    folder: Location
    datacenter: str
    table: TableName
    entries: LogEntries | None = None  # of whoever reads the table; None: its own
    _after: Commit | None = None
    _through: Commit = field(default_factory=Commit)
    _found: tuple[ForeignCommits, ...] = ()
    _last: dict[str, int] = field(default_factory=dict)  # the number of each app's last commit

    @property
    def through(self) -> Commit:
        """The commit up to which the last look came: the next one may begin behind it."""
        return self._through

    def look(self, after: Commit, version: int) -> tuple[ForeignCommits, ...]:
        """The commits of others behind `after`, up to this version. OSError: nobody can read them now."""
        if after != self._after:
            self._after, self._through, self._found, self._last = after, after, (), {}
        entries = self.entries or LogEntries(self.folder)
        found = list(self._found)
        if self._is_replaced(version):
            # A13, E10 and R2 tell it of joined rows, with another remedy.
            if self.table != "joined_events":
                found.append(self._fact("replaced", self._through.version, version))
            self._through = Commit(version - 1)
        first = self._through.version + 1
        digest = self._through.digest
        for number in range(first, version + 1):
            try:
                entry = entries.read(number)
            except (FileNotFoundError, BundleDamaged):
                digest = ""
                # Nobody was promised anything of a table before the first look at it.
                if after.version != NO_COMMIT:
                    found.append(self._fact("gone", number))
                continue
            digest = hashlib.sha256(entry).hexdigest()
            found += self._of_entry(number, entries.actions(number))
        self._found, self._through = together(found), Commit(max(version, NO_COMMIT), digest)
        return self._found

    def _is_replaced(self, version: int) -> bool:
        """Whether the commit up to which was looked is not the one that was there."""
        known = self._through
        if known.version > version:
            return True
        if not known.digest:
            return False
        try:
            now = LogEntries(self.folder).read(known.version)  # as it is, whoever keeps another one
            return hashlib.sha256(now).hexdigest() != known.digest
        except (FileNotFoundError, BundleDamaged):
            return False  # what follows on it is looked at, or gone too

    def _of_entry(self, version: int, actions: Sequence[dict[str, Any]]) -> Collection[ForeignCommits]:
        files = _files(actions)
        is_ours = is_photons(actions, self.datacenter, self.table, self._last)
        for transaction in (action["txn"] for action in actions if "txn" in action):
            self._last[str(transaction["appId"])] = int(transaction["version"])
        if is_ours or not files:
            return ()
        info = info_of(actions)
        said = str(info.get("operation", "a commit"))
        kind: Kind = "added"
        if not _changes_rows(actions):
            kind = "rewrote"
        elif any("remove" in action for action in actions):
            kind = "took" if said in _ONLY_TAKES else "changed"
        made_ms = info.get("timestamp")
        since_us = made_ms * 1_000 if isinstance(made_ms, int) else None
        return (ForeignCommits(self.table, kind, 1, said, version, version, since_us),)

    def _fact(self, kind: Kind, first: int, last: int | None = None) -> ForeignCommits:
        return ForeignCommits(self.table, kind, 1, "", first, first if last is None else last)


def last_of_others(table: OutputTable, datacenter: str, version: int, since: int | None = None) -> str:
    """Tell of the newest commit of others, behind `since` or among the last ones; or empty. OSError."""
    first = max(NO_COMMIT, version - MOST_LOOKED_AT) if since is None else since
    found = ForeignCommitWatch(table.folder, datacenter, table.name).look(Commit(first), version)
    told = [one for one in found if one.kind not in ("gone", "replaced")]
    newest = max(told, key=lambda one: one.last_version, default=None)
    return "" if newest is None else f" (others made {newest})"
