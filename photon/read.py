"""Read what was joined: the union of the tables of all datacenters that were not given up as lost (E2).

Also up to which event time it is complete, as the datacenters say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from photon.adapters import ROW_COLUMNS
from photon.clock import MICROSECONDS
from photon.completeness.estimate import Completeness
from photon.completeness.published import DOCUMENT, published
from photon.pipeline.file import Pipeline, load_pipeline
from photon.registry.consensus.register import retired_datacenters
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.storage.columns import text
from photon.storage.delta import LakeUnavailable
from photon.storage.tables import OutputTable


def joined(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> ds.Dataset:
    """The joined rows of all datacenters, now: `.to_table(columns=..., filter=...)` reads them.

    The columns are Photon's own (`ROW_COLUMNS`), then the adapter's. A column that a datacenter's table does
    not have yet is null in its rows. `retired`: epochs to leave out; None asks the registry, and leaves out
    every row of a datacenter that was given up as lost.
    Raises LakeUnavailable, PipelineError, and without `retired` also RegistryMissing, RegistryMismatch and
    RegistryUnavailable; pyarrow.ArrowTypeError if the tables disagree on a column's type.
    """
    pipeline = _loaded(pipeline)
    places = pipeline.datacenters
    if retired is None:
        gone = _gone(pipeline)
        places = {name: place for name, place in places.items() if name not in gone}
    tables = [OutputTable(place.lake, "joined_events") for place in places.values()]
    handles = [table.load() for table in tables if table.exists()]
    if not handles:
        return ds.dataset(ROW_COLUMNS.empty_table())
    schema = pa.unify_schemas([pa.schema(handle.schema().to_arrow()) for handle in handles])
    everything = ds.dataset([handle.to_pyarrow_dataset(schema=schema) for handle in handles])
    return everything.filter(~text("_epoch").isin(list(retired))) if retired else everything


@dataclass(frozen=True)
class Watermark:
    """Up to which event time the joined rows are complete.

    Each datacenter has a copy of all logs, and says so of what had come into its copy. So the latest of these
    times is the union's: what one of them knows to be decided is decided for all.
    """

    datacenters: Mapping[str, Completeness]  # those that have said anything

    @property
    def complete_up_to(self) -> datetime | None:
        """No record before it that had come waits any more. None: nobody has read a time yet."""
        return _latest(each.complete_up_to_us for each in self.datacenters.values())

    @property
    def mostly_up_to(self) -> datetime | None:
        """Of the records before it at least `completeness.of_events` of the pipeline file do not wait."""
        return _latest(each.mostly_up_to_us for each in self.datacenters.values())


def watermark(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> Watermark:
    """Up to which event time the rows of `joined` are complete: at most some seconds old while a shift runs.

    `retired`: datacenters to leave out; None asks the registry. LakeUnavailable, PipelineError, FormatTooNew,
    and without `retired` what `joined` raises of the registry.
    """
    pipeline = _loaded(pipeline)
    gone = _gone(pipeline) if retired is None else set(retired)
    said: dict[str, Completeness] = {}
    for name, place in pipeline.datacenters.items():
        if name in gone:
            continue
        try:
            found = published(place.lake)
        except (OSError, ValueError, KeyError) as error:
            what = f"read {place.lake / DOCUMENT}, which a shift writes"
            raise LakeUnavailable(f"cannot {what}: {error}") from error
        if found is not None:
            said[name] = found[0]
    return Watermark(said)


def _latest(times_us: Iterable[int | None]) -> datetime | None:
    known = [time_us for time_us in times_us if time_us is not None]
    return datetime.fromtimestamp(max(known) / MICROSECONDS, UTC) if known else None


def _loaded(pipeline: Pipeline | str | Path) -> Pipeline:
    return pipeline if isinstance(pipeline, Pipeline) else load_pipeline(pipeline)


def _gone(pipeline: Pipeline) -> set[str]:
    """The datacenters that were given up as lost."""
    return set(retired_datacenters(open_registry(find_registry(pipeline)).register.read().epochs))
