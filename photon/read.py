"""Read what was joined: the union of the tables of all datacenters that were not given up as lost (E2).

Also up to which event time it is complete, as the datacenters say. A table that the registry knows and that
is not there is an error (E10): rows would be missing without a word.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable

from photon.adapters import ROW_COLUMNS
from photon.errors import FormatTooNew
from photon.pipeline.file import Pipeline, load_pipeline
from photon.pipeline.sections import Datacenter
from photon.process.clock import MICROSECONDS
from photon.registry.errors import RegistryMissing, RegistryUnavailable
from photon.registry.known_tables import MissingTable, missing_tables
from photon.registry.opening import read_register
from photon.registry.register import Register
from photon.state.completeness.estimate import Completeness
from photon.state.completeness.published import DOCUMENT, published
from photon.storage.delta import LakeMismatch, LakeUnavailable
from photon.storage.tables import OutputTable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Watermark:
    """Up to which event time joined rows are complete.

    Each datacenter has a copy of all logs, and says so of what had come into its copy. So the latest of these
    times is the union's: what one of them knows to be decided is decided for all.
    """

    datacenters: Mapping[str, Completeness]  # datacenters that have said anything

    @property
    def complete_up_to(self) -> datetime | None:
        """Every record before it that had come is decided: none waits. None: nobody has read a time yet."""
        return _latest(each.complete_up_to_us for each in self.datacenters.values())

    @property
    def mostly_up_to(self) -> datetime | None:
        """The time before which at least `availability.of_events` of the pipeline file do not wait."""
        return _latest(each.mostly_up_to_us for each in self.datacenters.values())


class JoinedRows(ds.UnionDataset):
    """The joined rows of all datacenters at one version of each table: a dataset of pyarrow's.

    `watermark`: up to where these very rows are complete. `unchecked`: what nobody could say of them, and
    why; empty if the registry knows no other table and no retired datacenter.
    """

    def __init__(
        self, schema: pa.Schema, children: Sequence[ds.Dataset], watermark: Watermark, unchecked: str
    ) -> None:
        super().__init__(schema, children)
        self.watermark, self.unchecked = watermark, unchecked

    @property
    def complete_up_to(self) -> datetime | None:
        """No record before it that had come lacks its row here. None: nobody has read a time yet."""
        return self.watermark.complete_up_to

    def filter(self, expression: ds.Expression) -> JoinedRows:
        """The same rows without those that do not match: their watermark is the same."""
        found: JoinedRows = super().filter(expression)
        found.watermark, found.unchecked = self.watermark, self.unchecked
        return found


# The promise of the rows that `joined` gave last, by pipeline file: a later promise may be beyond them.
_of_last_rows: dict[Path, Watermark] = {}


def joined(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> JoinedRows:
    """The joined rows of all datacenters, now: `.to_table(columns=..., filter=...)` reads them.

    The columns are Photon's own (`ROW_COLUMNS`), then the adapter's. A column that a datacenter's table does
    not have yet is null in its rows. `retired`: datacenters to leave out, and the registry is not asked; None
    asks it, leaves out every row of a datacenter that was given up as lost, and misses no table. If it does
    not answer, or is not there, all tables of the pipeline file have to be, and `unchecked` says so.
    Raises LakeUnavailable, UnsupportedTable, PipelineError, and without `retired` also LakeMismatch and
    RegistryMismatch; pyarrow.ArrowTypeError if the tables disagree on a column's type.
    """
    pipeline = _loaded(pipeline)
    asked = _ask(pipeline) if retired is None else _without(pipeline, retired)
    # Before any table: what is said to be complete is in the versions that are opened after it.
    watermark = _promised(asked.places)
    handles = _opened(pipeline, asked, needs_all=retired is None).values()
    _of_last_rows[pipeline.file] = watermark
    if not handles:
        return JoinedRows(ROW_COLUMNS, [ds.dataset(ROW_COLUMNS.empty_table())], watermark, asked.unchecked)
    schema = pa.unify_schemas([pa.schema(handle.schema().to_arrow()) for handle in handles])
    tables = [handle.to_pyarrow_dataset(schema=schema) for handle in handles]
    return JoinedRows(schema, tables, watermark, asked.unchecked)


def joined_tables(pipeline: Pipeline | str | Path) -> dict[str, str]:
    """The tables whose rows `joined` reads, by datacenter, for engines that read Delta tables themselves.

    Their union has each row once, and no row of a datacenter that was given up as lost. Raises as `joined`.
    """
    pipeline = _loaded(pipeline)
    asked = _ask(pipeline)
    found = _opened(pipeline, asked, needs_all=True)
    return {name: str(asked.places[name].lake / "joined_events") for name in found}


def watermark(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> Watermark:
    """Up to which event time the rows that `joined` gave last in this process are complete: they don't grow.

    Before the first call of `joined`, as `newest_watermark`, and raises the same.
    """
    pipeline = _loaded(pipeline)
    known = _of_last_rows.get(pipeline.file)
    if known is None:
        return newest_watermark(pipeline, retired)
    gone = set(retired or ())
    return Watermark({name: said for name, said in known.datacenters.items() if name not in gone})


def newest_watermark(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> Watermark:
    """Up to which event time rows are complete that are read after this call, as the datacenters say now.

    At most some seconds old while a shift runs. `retired`: datacenters to leave out; None asks the registry.
    LakeUnavailable, PipelineError, FormatTooNew, and without `retired` what is wrong with the registry.
    """
    pipeline = _loaded(pipeline)
    places = pipeline.datacenters
    gone = set(read_register(pipeline).lakes_gone if retired is None else retired)
    return Watermark(
        {name: said for name, place in places.items() if name not in gone and (said := _said(place))}
    )


def _said(place: Datacenter) -> Completeness | None:
    """Return the last statement of a datacenter; None: there is none. LakeUnavailable, FormatTooNew."""
    try:
        found = published(place.lake)
    except (OSError, ValueError, KeyError) as error:
        what = f"read {place.lake / DOCUMENT}, which a shift writes"
        raise LakeUnavailable(f"cannot {what}: {error}") from error
    return None if found is None else found[0]


def _promised(places: Mapping[str, Datacenter]) -> Watermark:
    """Return the promise for rows that are read next. A statement that can't be read promises nothing."""
    said: dict[str, Completeness] = {}
    for name, place in places.items():
        try:
            if (found := _said(place)) is not None:
                said[name] = found
        except (LakeUnavailable, FormatTooNew) as error:
            log.warning("nothing is known of how complete the rows of datacenter %s are: %s", name, error)
    return Watermark(said)


# -- which tables count


@dataclass(frozen=True)
class _Asked:
    """The datacenters whose rows count; the register, or why it was not asked."""

    places: Mapping[str, Datacenter]
    register: Register | None = None
    unchecked: str = ""


def _ask(pipeline: Pipeline) -> _Asked:
    """Ask the registry which tables it knows. RegistryMismatch, FormatTooNew."""
    try:
        register = read_register(pipeline)
    except (RegistryUnavailable, RegistryMissing) as error:
        why = f"whether a datacenter was given up, or another table lies in a lake, is not known: {error}"
        log.warning("%s", why)
        return _Asked(pipeline.datacenters, unchecked=why)
    places = {name: place for name, place in pipeline.datacenters.items() if name not in register.lakes_gone}
    return _Asked(places, register)


def _without(pipeline: Pipeline, retired: Collection[str]) -> _Asked:
    places = {name: place for name, place in pipeline.datacenters.items() if name not in retired}
    return _Asked(places, unchecked="the registry was not asked")


def _opened(pipeline: Pipeline, asked: _Asked, needs_all: bool) -> dict[str, DeltaTable]:
    """The tables at their newest versions, by datacenter. LakeUnavailable, LakeMismatch."""
    tables = {name: OutputTable(place.lake, "joined_events") for name, place in asked.places.items()}
    handles = {name: table.load() for name, table in tables.items() if table.exists()}
    if asked.register is not None:
        ids = {name: str(handles[name].metadata().id) if name in handles else None for name in tables}
        for missing in missing_tables(asked.register, ids):
            raise _error_of(missing, pipeline)
    elif needs_all and (lacking := next((name for name in tables if name not in handles), None)) is not None:
        raise LakeUnavailable(
            f"there is no table {tables[lacking].folder} of datacenter {lacking}, and whether it ever joined "
            f"is not known: {asked.unchecked}; bring the registry or the lake back"
        )
    return handles


def _error_of(missing: MissingTable, pipeline: Pipeline) -> LakeUnavailable | LakeMismatch:
    name = missing.datacenter
    if missing.why == "unnamed":
        return LakeMismatch(
            f"the registry of {pipeline.name} knows datacenter {name}, which {pipeline.file} lacks: its rows "
            "would be missing. Put it back into the file; if it was renamed, under its old name"
        )
    folder = pipeline.datacenters[name].lake / "joined_events"
    if missing.why == "another":
        return LakeMismatch(
            f"the table {folder} (id {missing.found}) is not the one that the registry knows of datacenter "
            f"{name} (id {missing.table_id}): rows would be missing; put the lake folder back"
        )
    return LakeUnavailable(
        f"there is no table {folder}, and the registry knows that datacenter {name} has joined: its rows "
        "would be missing; mount the lake or put it back. If it is lost for good: "
        f"photon retire {pipeline.typed} {name} --lake-is-gone"
    )


def _latest(times_us: Iterable[int | None]) -> datetime | None:
    known = [time_us for time_us in times_us if time_us is not None]
    return datetime.fromtimestamp(max(known) / MICROSECONDS, UTC) if known else None


def _loaded(pipeline: Pipeline | str | Path) -> Pipeline:
    return pipeline if isinstance(pipeline, Pipeline) else load_pipeline(pipeline)
