"""Commits of others to a datacenter's tables on which nobody has decided, seen from outside (E11).

The newest release has what its makers saw. Behind that the tables' logs are read here, so it is known also
where no join runs, or releases are made once a day.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import lru_cache, partial
from pathlib import Path

from photon.health.lakes import joined_table_id
from photon.health.verdict import Verdict
from photon.pipeline.file import Pipeline, dagster_name
from photon.pipeline.location import Location
from photon.process.errors import UserError
from photon.process.in_time import NotInTime, Repeated
from photon.releases.foreign_commits import looked_through, newest_part, open_facts
from photon.releases.release import Part
from photon.storage.columns import TABLE_COLUMNS, TableName
from photon.storage.delta import LOG_FOLDER
from photon.storage.foreign_commits import MOST_LOOKED_AT, ForeignCommits, ForeignCommitWatch, together

ANSWERS_WITHIN_SECONDS = 2.0  # `photon status` asks each lake in turn, and is to answer within 5 s
STANDS_SECONDS = 60.0  # an answer that came late is that of the next look, unless it is older
MOST_WATCHED = 64  # tables, between looks


def look_at_foreign_commits(
    pipeline: Pipeline, datacenter: str, retired: Collection[str]
) -> tuple[ForeignCommits, ...]:
    """Return what others have done; while the lake can't be read, what was known last (other facts tell)."""
    question = partial(_look, pipeline, datacenter, frozenset(retired))
    looks = _looks_at(pipeline.datacenters[datacenter].lake)
    try:
        return looks.answer(question, ANSWERS_WITHIN_SECONDS)
    except (NotInTime, UserError, OSError):
        return looks.last or ()


def judge_foreign_commits(
    datacenter: str, found: tuple[ForeignCommits, ...], pipeline: Pipeline
) -> Verdict | None:
    """An error until a verification behind them finds nothing wrong."""
    if not found:
        return None
    says = "; ".join(one.sentence for one in found)
    leave = f"To leave taken rows away: photon acknowledge {pipeline.typed} {datacenter} --rows. "
    if any(one.kind == "changed" for one in found):  # it is refused as long as rows may be altered
        leave = ""
    job = dagster_name(pipeline.name, "recover")
    remedy = (
        f"photon recover {pipeline.typed} joins again what is missing (under Dagster the job {job}), and "
        f"photon verify {pipeline.typed} ends this once nothing is wrong. {leave}Verification names rows "
        "that others altered, with the command that makes them right. Rows that others added: delete them"
    )
    short = "has tables that others changed"
    return Verdict("error", f"{datacenter}: {says}", remedy, short, names=tuple(map(str, found)))


def _look(pipeline: Pipeline, datacenter: str, retired: frozenset[str]) -> tuple[ForeignCommits, ...]:
    lake = pipeline.datacenters[datacenter].lake
    part = newest_part(pipeline, datacenter, retired)
    known = open_facts(pipeline, datacenter, retired, part)
    # In a store each listing costs: the join looks.
    behind = _behind(datacenter, lake, part) if isinstance(lake, Path) else ()
    return together((*known, *behind))


def _behind(datacenter: str, lake: Path, part: Part | None) -> Iterator[ForeignCommits]:
    """Find commits of others since the release was counted; to a table that no release has, all of them.

    Of another lake in the place of this one its own light tells alone (E10).
    """
    if part is not None and joined_table_id(lake) not in (None, part.table_id):
        return
    for table in TABLE_COLUMNS:
        known = looked_through(part, table)
        watch = _watch(lake, datacenter, table)
        entries = [int(entry.stem) for entry in (lake / table / LOG_FOLDER).glob("[0-9]*[0-9].json")]
        # Without a table, its light says so.
        if entries and max(entries) - known.version <= MOST_LOOKED_AT:
            yield from (one for one in watch.look(known, max(entries)) if one.kind != "rewrote")


@lru_cache(MOST_WATCHED)
def _looks_at(lake: Location) -> Repeated[tuple[ForeignCommits, ...]]:
    return Repeated(STANDS_SECONDS)


@lru_cache(MOST_WATCHED)
def _watch(lake: Path, datacenter: str, table: TableName) -> ForeignCommitWatch:
    return ForeignCommitWatch(lake / table, datacenter, table)
