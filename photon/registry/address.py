"""Where a registry is, as a value that pickles: found once by the dispatcher, opened in every task."""

from __future__ import annotations

from dataclasses import dataclass

from photon.ledger.address import EndpointAddress, table_name
from photon.pipeline.sections import Registry
from photon.registry.consensus.register import Members


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """One pipeline's registry: its stores, its members as they were when it was found, its settings."""

    pipeline: str
    endpoints: tuple[EndpointAddress, ...]
    members: Members
    settings: Registry

    @property
    def tables(self) -> tuple[str, ...]:
        """The registry's table at each endpoint. One that has lost its table does not answer for it."""
        return tables_of(self.pipeline, self.members)


def tables_of(pipeline: str, members: Members) -> tuple[str, ...]:
    """The tables of a pipeline's stores, by slot."""
    return tuple(table_name(pipeline, incarnation) for incarnation in members.incarnations)
