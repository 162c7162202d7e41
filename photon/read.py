"""Read what was joined: the union of the tables of all datacenters that were not given up as lost (E2)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from photon.adapters import ROW_COLUMNS
from photon.pipeline.file import Pipeline, load_pipeline
from photon.registry.consensus.register import retired_datacenters
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.storage.columns import text
from photon.storage.tables import OutputTable


def joined(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> ds.Dataset:
    """The joined rows of all datacenters, now: `.to_table(columns=..., filter=...)` reads them.

    The columns are Photon's own (`ROW_COLUMNS`), then the adapter's. A column that a datacenter's table does
    not have yet is null in its rows. `retired`: epochs to leave out; None asks the registry, and leaves out
    every row of a datacenter that was given up as lost.
    Raises LakeUnavailable, PipelineError, and without `retired` also RegistryMissing, RegistryMismatch and
    RegistryUnavailable; pyarrow.ArrowTypeError if the tables disagree on a column's type.
    """
    if not isinstance(pipeline, Pipeline):
        pipeline = load_pipeline(pipeline)
    places = pipeline.datacenters
    if retired is None:
        gone = retired_datacenters(open_registry(find_registry(pipeline)).register.read().epochs)
        places = {name: place for name, place in places.items() if name not in gone}
    tables = [OutputTable(place.lake, "joined_events") for place in places.values()]
    handles = [table.load() for table in tables if table.exists()]
    if not handles:
        return ds.dataset(ROW_COLUMNS.empty_table())
    schema = pa.unify_schemas([pa.schema(handle.schema().to_arrow()) for handle in handles])
    everything = ds.dataset([handle.to_pyarrow_dataset(schema=schema) for handle in handles])
    return everything.filter(~text("_epoch").isin(list(retired))) if retired else everything
