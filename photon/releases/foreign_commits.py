"""Whether others took joined rows of a datacenter, and nobody has decided on that yet (protocol E11).

Then a row that is missing makes no id free.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from photon.pipeline.file import Pipeline
from photon.releases import copies
from photon.releases.finding import asked_of_lakes
from photon.releases.making import open_after
from photon.releases.release import Part, Release
from photon.storage.changes import Commit
from photon.storage.columns import TableName
from photon.storage.delta import lake_errors
from photon.storage.foreign_commits import ForeignCommits, ForeignCommitWatch

if TYPE_CHECKING:
    from photon.storage.tables import OutputTable  # a status does without it


def newest_release(pipeline: Pipeline, datacenter: str, retired: Collection[str]) -> Release | None:
    """The newest release that the datacenter's lake has; once it is retired, that any lake has.

    Nobody stores copies in the lake of a retired datacenter any more. OSError.
    """
    newest = copies.latest(pipeline.datacenters[datacenter].lake)
    if newest is None or datacenter in retired:
        found, _ = asked_of_lakes(pipeline, copies.latest)
        newest = max(found.values(), key=lambda one: one.number, default=newest)
    return newest


def newest_part(pipeline: Pipeline, datacenter: str, retired: Collection[str]) -> Part | None:
    """The datacenter's part of the newest release. OSError."""
    newest = newest_release(pipeline, datacenter, retired)
    return None if newest is None else newest.parts.get(datacenter)


def open_facts(
    pipeline: Pipeline, datacenter: str, retired: Collection[str], part: Part | None
) -> tuple[ForeignCommits, ...]:
    """Return those of a part that no verification has ended since; none without a release."""
    if part is None:
        return ()
    return open_after(part.foreign, copies.clean_release(pipeline, datacenter, retired))


def looked_through(part: Part | None, table: TableName) -> Commit:
    """The commit up to which a release has looked; before the first one where none has."""
    return Commit() if part is None else part.looked.get(table, Commit())


def others_took_rows(
    pipeline: Pipeline, datacenter: str, table: OutputTable, retired: Collection[str] = ()
) -> bool:
    """Whether a joined row of this datacenter that is not there may be one that others took.

    Ask once the rows were read, with the table that they were read from: all that was committed by then is
    looked at, and nothing is opened again. Of another table in the place of this one, and of an older copy,
    A13 and R2 decide. LakeUnavailable.
    """
    with lake_errors(f"look for commits of others in the table {table.folder}"):
        part = newest_part(pipeline, datacenter, retired)
        known = open_facts(pipeline, datacenter, retired, part)
        watch = ForeignCommitWatch(table.folder, datacenter, table.name)
        found = (*known, *watch.look(looked_through(part, table.name), table.load().version()))
    return any(one.took_joined_rows for one in found)
