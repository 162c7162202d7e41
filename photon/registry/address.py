"""Where a registry is, as a value that pickles: found once by the dispatcher, opened in every task.

Only the description belongs here. Finding or making a registry is `photon.registry.init`, opening
it is `photon.registry.open`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from photon.pipeline import Registry


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
    """One pipeline's registry: its stores, its table there (name with incarnation) and how it is laid out."""

    pipeline: str
    endpoints: tuple[EndpointAddress, ...]
    table: str
    settings: Registry
    settings_hash: str
    time_in_id: bool
