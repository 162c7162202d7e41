"""The tables whose rows count, as the registry knows them (E2, E10)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from deltalake import DeltaTable

from photon.pipeline.file import Pipeline
from photon.pipeline.sections import Datacenter
from photon.registry.errors import RegistryMissing, RegistryUnavailable
from photon.registry.known_tables import MissingTable, another_table, missing_tables
from photon.registry.opening import read_register
from photon.registry.register import Register
from photon.storage.delta import LakeMismatch, LakeUnavailable
from photon.storage.tables import OutputTable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """The datacenters whose rows count; the register, or why it was not asked."""

    places: Mapping[str, Datacenter]
    register: Register | None = None
    unchecked: str = ""


def ask(pipeline: Pipeline) -> Asked:
    """Ask the registry which tables it knows. RegistryMismatch, FormatTooNew."""
    try:
        register = read_register(pipeline)
    except (RegistryUnavailable, RegistryMissing) as error:
        why = f"whether a datacenter was given up, or another table lies in a lake, is not known: {error}"
        log.warning("%s", why)
        return Asked(pipeline.datacenters, unchecked=why)
    places = {name: place for name, place in pipeline.datacenters.items() if name not in register.lakes_gone}
    return Asked(places, register)


def without(pipeline: Pipeline, retired: Collection[str]) -> Asked:
    """All datacenters of the pipeline file but these, without a question to the registry."""
    places = {name: place for name, place in pipeline.datacenters.items() if name not in retired}
    return Asked(places, unchecked="the registry was not asked")


def opened_tables(pipeline: Pipeline, asked: Asked, needs_all: bool) -> dict[str, DeltaTable]:
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
        return LakeMismatch(another_table(folder, missing.found, name, missing.table_id, pipeline.file))
    return LakeUnavailable(
        f"there is no table {folder}, and the registry knows that datacenter {name} has joined: its rows "
        f"would be missing; mount the lake or put it back; {pipeline.if_lake_is_lost(name)}"
    )
