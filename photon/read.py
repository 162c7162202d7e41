"""Read what was joined: the union of the datacenters' tables. Rows of retired epochs are left out (E2)."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds

from photon.adapters import ROW_COLUMNS
from photon.pipeline.file import Pipeline, load_pipeline
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry
from photon.storage.tables import OutputTable


def joined(pipeline: Pipeline | str | Path, retired: Collection[str] | None = None) -> ds.Dataset:
    """The joined rows of all datacenters, now: `.to_table(columns=..., filter=...)` reads them.

    The columns are Photon's own (`ROW_COLUMNS`), then the adapter's. A column that a datacenter's table does
    not have yet is null in its rows. `retired`: epochs to leave out; None asks the registry.
    Raises LakeUnavailable, PipelineError, and without `retired` also RegistryMissing, RegistryMismatch and
    RegistryUnavailable; pyarrow.ArrowTypeError if the tables disagree on a column's type.
    """
    if not isinstance(pipeline, Pipeline):
        pipeline = load_pipeline(pipeline)
    if retired is None:
        retired = retired_epochs(pipeline)
    tables = [OutputTable(place.lake, "joined_events") for place in pipeline.datacenters.values()]
    handles = [table.load() for table in tables if table.exists()]
    if not handles:
        return ds.dataset(ROW_COLUMNS.empty_table())
    schema = pa.unify_schemas([pa.schema(handle.schema().to_arrow()) for handle in handles])
    everything = ds.dataset([handle.to_pyarrow_dataset(schema=schema) for handle in handles])
    return everything.filter(~ds.field("_epoch").isin(list(retired))) if retired else everything


def retired_epochs(pipeline: Pipeline) -> list[str]:
    """The epochs that the registry has retired: of datacenters that were given up as lost."""
    epochs = open_registry(find_registry(pipeline)).register.read().epochs
    return [epoch for epoch, record in epochs.items() if record.state == "retired"]
