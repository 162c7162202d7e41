"""Whether a datacenter can be retired, and whether its rows count then: if its lake is there (E2)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

from photon.dispatcher.recovery.distant_lakes import DistantLakes
from photon.pipeline.file import Pipeline
from photon.process.errors import UserError
from photon.process.readable import counted
from photon.registry.register import Register
from photon.storage.delta import LakeDamaged, LakeUnavailable, UnsupportedTable
from photon.storage.replacing import data_files
from photon.storage.tables import OutputTable

LOOKS_AT_ONCE = 16  # at files, on S3 a request each


class NotRetired(UserError):
    """The datacenter can't be retired so; the message says why, and what to do."""


def table_that_counts(
    pipeline: Pipeline, datacenter: str, register: Register, lake_is_gone: bool
) -> OutputTable | None:
    """The table whose rows stay; None: its rows don't count any more.

    NotRetired for one that nobody knows, the last one, or where the lake is not as a person says.
    """
    _refuse_unknown_and_last(pipeline, datacenter, register)
    if datacenter in register.lakes_gone:
        return None  # an earlier run has decided so
    place, why = pipeline.datacenters.get(datacenter), f"{pipeline.file} does not name its lake"
    if place is not None:
        table = OutputTable(place.lake, "joined_events")
        why = _why_gone(pipeline, datacenter, table, register.tables.get(datacenter))
        if not why and lake_is_gone:
            raise NotRetired(
                f"datacenter {datacenter} is not retired: its lake is not gone, {table.folder} is there and "
                "can be read. Its rows count, so that nothing is joined again: "
                f"photon retire {pipeline.typed} {datacenter}, without --lake-is-gone"
            )
        if not why:
            return table
    if lake_is_gone:
        return None
    raise NotRetired(
        f"datacenter {datacenter} can't be retired with its rows: {why}; bring the lake back, or, if it is "
        "lost for good: --lake-is-gone. Then its rows don't count any more, and its ids may be joined again"
    )


def _refuse_unknown_and_last(pipeline: Pipeline, datacenter: str, register: Register) -> None:
    known = register.epochs.keys()
    if datacenter not in known:
        raise NotRetired(
            f"the registry knows no datacenter {datacenter}; it knows: {', '.join(sorted(known)) or 'none'}"
        )
    if not {*pipeline.datacenters, *known} - {*register.given_up, datacenter}:
        raise NotRetired(
            f"datacenter {datacenter} is the last one: nobody would join what it gives up. Let another one "
            "join first; to keep this one from running, put it on hold"
        )


def _why_gone(pipeline: Pipeline, datacenter: str, table: OutputTable, known: str | None) -> str:
    """Why the table can't be read whole; empty if it can. NotRetired where that is not known."""
    lakes = DistantLakes()
    try:
        if why := lakes.ask(datacenter, partial(_why_not_its_table, table, known)):
            return why
        return _missing_files(table)
    except LakeDamaged as error:
        return str(error)
    except UnsupportedTable as error:
        raise NotRetired(f"datacenter {datacenter} is not retired: its lake is there, but {error}") from error
    except LakeUnavailable as error:
        again = f"photon retire {pipeline.typed} {datacenter}"
        raise NotRetired(
            f"datacenter {datacenter} is not retired, for nobody knows whether its lake is gone: {error}. "
            f"Once {table.folder} can be read: {again}. If nobody ever can again, take the datacenter "
            f"out of {pipeline.file}, then: {again} --lake-is-gone"
        ) from error


def _why_not_its_table(table: OutputTable, known: str | None) -> str:
    if not table.exists():
        return f"the table {table.folder} is not there"
    if known is not None and table.table_id() != known:
        return f"the table {table.folder} is not the one that the registry knows"
    return ""


def _missing_files(table: OutputTable) -> str:
    paths = list(data_files(table.load()))
    with table.reading(), ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        sizes = list(pool.map(table.store.size_bytes, paths))
    missing = [path for path, size_bytes in zip(paths, sizes, strict=True) if size_bytes is None]
    return f"{table.folder} lacks {counted(len(missing), 'file')}, such as {missing[0]}" if missing else ""
