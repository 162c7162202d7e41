"""What people have decided on datacenters, as the registry has it, for those who only tell it.

Who refuses to run a datacenter because of it is `photon.dispatcher.startup`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from photon.errors import UserError
from photon.pipeline.file import Pipeline
from photon.recovery.lacking import refuse_lacking
from photon.registry.consensus.known_tables import known_tables
from photon.registry.consensus.register import Register, retired_datacenters
from photon.registry.open import open_registry
from photon.registry.operations.init import find_registry

Decision = Literal["on hold", "retired"]


@dataclass(frozen=True)
class Decisions:
    """Which datacenters people keep from running; `unknown_because`: the registry could not be asked."""

    on_hold: frozenset[str] = frozenset()
    retired: frozenset[str] = frozenset()
    ended_epochs: frozenset[str] = frozenset()  # that others, or people, have ended
    unknown_because: str | None = None
    tables: Mapping[str, str] = field(default_factory=dict)  # the ids of tables that are to be there

    def on(self, datacenter: str) -> Decision | None:
        """What people have decided on one; a retirement goes before a hold, for it is for good."""
        if datacenter in self.retired:
            return "retired"
        return "on hold" if datacenter in self.on_hold else None


def decisions_of(pipeline: Pipeline) -> Decisions:
    """What people have decided; a registry that can't be asked is named in it, not an error.

    RegistryMismatch if the pipeline file lacks a datacenter of the registry: so commands refuse such a file.
    """
    try:
        register = register_of(pipeline)
    except (UserError, OSError) as error:
        return Decisions(unknown_because=str(error))
    if register is None:
        return Decisions()
    refuse_lacking(pipeline, register)
    retired = retired_datacenters(register.epochs).union(register.given_up)
    ended = frozenset(epoch for epoch, record in register.epochs.items() if record.state != "live")
    return Decisions(frozenset(register.on_hold), retired, ended, tables=known_tables(register))


def register_of(pipeline: Pipeline) -> Register | None:
    """The register now; None where a local registry was never made.

    RegistryMissing, RegistryMismatch, RegistryUnavailable, FormatTooNew.
    """
    # A local registry that was never made would be started for nothing.
    if pipeline.registry.endpoints == "local" and not pipeline.registry_folder.exists():
        return None
    return open_registry(find_registry(pipeline)).register.read()
