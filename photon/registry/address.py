"""Where a registry is, as a value that pickles: found once by the dispatcher, opened in every task."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from photon.pipeline.file import Registry
from photon.registry.consensus.register import Members


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """One store: the `url` of a server, or the `folder` of a local one that is started on demand."""

    url: str | None
    folder: Path | None
    region: str = "local"
    transactions: bool = False  # whether it is faster to insert by transactions

    def __str__(self) -> str:
        return self.url or f"the local registry in {self.folder}"


@dataclass(frozen=True, slots=True)
class RegistryAddress:
    """One pipeline's registry: its stores, its table at each (name with incarnation), how it is laid out.

    An endpoint that has lost its table does not answer for it.
    """

    pipeline: str
    endpoints: tuple[EndpointAddress, ...]
    tables: tuple[str, ...]
    settings: Registry
    settings_hash: str
    time_in_id: bool
    members: Members | None = None  # as they were when it was found


def table_name(pipeline: str, incarnation: str) -> str:
    """The table of one incarnation of a pipeline's store."""
    return f"photon-{pipeline}-{incarnation}"
