"""Where a registry is, as a value that pickles and compares: its stores, and the tables in them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from photon.pipeline.sections import Registry
from photon.registry.register import Members

LOCAL_REGION = "local"  # for servers that want credentials, and take any


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """One store: the URL of a server, or the folder of a local registry's file."""

    where: str | Path
    region: str = LOCAL_REGION
    profile: str | None = None  # a profile of AWS's files, with credentials and certificates
    role: str | None = None  # a role that is assumed with these credentials

    def __str__(self) -> str:
        return self.where if isinstance(self.where, str) else f"the local registry in {self.where}"


@dataclass(frozen=True, slots=True)
class LedgersAddress:
    """One pipeline's registry: its stores, its members when it was found, and its settings."""

    pipeline: str
    endpoints: tuple[EndpointAddress, ...]
    members: Members
    settings: Registry

    @property
    def tables(self) -> tuple[str, ...]:
        """The registry's table at each endpoint. An endpoint that lost its table counts as silent."""
        return tables_of(self.pipeline, self.members)


def table_name(pipeline: str, incarnation: str) -> str:
    """Name the table of a store: each incarnation of the store has its own."""
    return f"photon-{pipeline}-{incarnation}"


def tables_of(pipeline: str, members: Members) -> tuple[str, ...]:
    """The tables of a pipeline's stores, by slot."""
    return tuple(table_name(pipeline, incarnation) for incarnation in members.incarnations)
