"""The decisions of people on datacenters, as the registry has them, for those who only tell it.

Who refuses to run a datacenter because of it is `photon.dispatcher.startup`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar

from photon.dispatcher.refusals import refuse_missing_datacenters
from photon.pipeline.file import Pipeline
from photon.process.errors import UserError
from photon.process.in_time import NotInTime, Question
from photon.registry.errors import RegistryMismatch, RegistryMissing
from photon.registry.known_tables import known_tables
from photon.registry.opening import endpoints_of, find_registry_soon, positions_at, read_register
from photon.registry.register import Register, with_unmatched_owner
from photon.registry.stores.sqlite.lock import holder_in
from photon.state.database import STATE_FILE
from photon.state.starting import what_starts

T = TypeVar("T")
Decision = Literal["on hold", "retired"]
ASK_SECONDS = 2.5  # who only tells waits so long for the registry, of the five in which people get an answer


@dataclass(frozen=True)
class Decisions:
    """Which datacenters people keep from running; `unknown_because`: the registry could not be asked."""

    on_hold: frozenset[str] = frozenset()
    retired: frozenset[str] = frozenset()
    unknown_because: str | None = None
    refused_because: str = ""  # that the registry is not there, or another one: each start ends so
    tables: Mapping[str, str] = field(default_factory=dict)  # the ids of tables that are to be there
    unmatched_owner: str = ""  # who writes unmatched primaries, or will; empty: nobody has joined, or unknown

    def on(self, datacenter: str) -> Decision | None:
        """The decisions of people on one datacenter; a retirement goes before a hold, for it is for good."""
        if datacenter in self.retired:
            return "retired"
        return "on hold" if datacenter in self.on_hold else None


def how_to_start(
    pipeline: Pipeline, datacenter: str, on_hold: Collection[str], retired: Collection[str] = ()
) -> str:
    """How a datacenter that does not run is to run again; `on_hold`: those that people keep from running.

    A retired one never does: its lake is looked for.
    """
    if datacenter in retired:
        return f"put the lake of datacenter {datacenter} back, which is retired, and whose rows count"
    if datacenter in on_hold:
        return f"let datacenter {datacenter} run again: photon resume {pipeline.typed} {datacenter}"
    return f"start datacenter {datacenter} again: {what_starts(pipeline, datacenter)}"


def decisions_of(pipeline: Pipeline) -> Decisions:
    """The decisions of people; a registry that can't be asked is named in them, not an error.

    RegistryMismatch if the pipeline file lacks a datacenter of the registry: so commands refuse such a file.
    """
    try:
        register = register_of(pipeline)
    except (RegistryMissing, RegistryMismatch) as error:
        return Decisions(unknown_because=str(error), refused_because=str(error))
    except (UserError, OSError) as error:
        return Decisions(unknown_because=str(error))
    if register is None:
        return Decisions()
    refuse_missing_datacenters(pipeline, register)
    on_hold, retired = frozenset(register.on_hold), frozenset(register.given_up)
    owner = with_unmatched_owner(register, pipeline.datacenters).unmatched_owner
    return Decisions(on_hold, retired, tables=known_tables(register), unmatched_owner=owner)


def asked_in_time(pipeline: Pipeline, ask: Callable[[], T], seconds: float, while_working: bool = False) -> T:
    """Return what `ask` finds in the registry, or raise as it does; NotInTime if that hangs."""
    try:
        return Question(ask).answer(seconds, while_working)
    except NotInTime as error:
        raise NotInTime(silent_registry(pipeline, str(error))) from error


def ask_first(pipeline: Pipeline, is_patient: bool = False) -> None:
    """NotInTime, with who holds it, where the registry hangs: what does nothing without it then ends soon.

    `is_patient`: this process yields processors to others. Whoever asks next tells all else that is wrong.
    """
    try:
        # A busy machine keeps its own registry; requests to another one seem to be work, for threads wait.
        is_local = pipeline.registry.endpoints == "local"
        while_working = is_local or is_patient
        asked_in_time(pipeline, lambda: register_of(pipeline), ASK_SECONDS, while_working)
    except NotInTime:
        raise
    except (UserError, OSError):
        return


def decisions_in_time(
    pipeline: Pipeline, seconds: float = ASK_SECONDS, while_working: bool = False
) -> Decisions:
    """As `decisions_of`; a registry that hangs is one that could not be asked. RegistryMismatch.

    `while_working`: for who asks once, maybe on a busy machine. Who asks again knows what was so before.
    """
    try:
        return asked_in_time(pipeline, lambda: decisions_of(pipeline), seconds, while_working)
    except NotInTime as error:
        return Decisions(unknown_because=str(error))


def beside_states(pipeline: Pipeline, decisions: Decisions) -> Decisions:
    """The decisions where a local registry is gone, though a datacenter has begun: each start ends so."""
    registry, places = pipeline.registry_folder, pipeline.datacenters.values()
    is_there = pipeline.registry.endpoints != "local" or registry.exists()
    if is_there or not any((place.state / STATE_FILE).exists() for place in places):
        return decisions
    gone = (
        f"there is no registry any more: put {registry} back; if it is lost for good, make an empty one and "
        f"put the ids of all rows into it: photon registry init {pipeline.typed}, then "
        f"photon registry refill {pipeline.typed}"
    )
    return replace(decisions, unknown_because=gone, refused_because=gone)


_seen: dict[Path, Decisions] = {}  # those that were last known, by pipeline file


def decisions_seen(pipeline: Pipeline) -> Decisions:
    """Return people's decisions, for a process that looks all the time.

    While a registry can't be asked, what was known last counts.
    """
    try:
        found = decisions_in_time(pipeline)
    except RegistryMismatch:  # the shift says why it can't run
        return Decisions()
    if found.unknown_because is not None:
        return _seen.get(pipeline.file, found)
    _seen[pipeline.file] = found
    return found


def silent_registry(pipeline: Pipeline, said: str) -> str:
    """Why a registry has not answered, as far as that can be seen from here, and what to do."""
    if pipeline.registry.endpoints == "local":
        folder = pipeline.registry_folder
        why = holder_in(folder) or "look at the disk of that folder"
        return f"the local registry in {folder}: {said}; {why}"
    places = ", ".join(str(one) for one in endpoints_of(pipeline))
    return f"the registry at {places}: {said}; look at these servers, and at the network between"


def register_of(pipeline: Pipeline) -> Register | None:
    """The register now; None where a local registry was never made.

    RegistryMissing, RegistryMismatch, RegistryUnavailable, FormatTooNew.
    """
    if pipeline.registry.endpoints == "local" and not pipeline.registry_folder.exists():
        return None
    return read_register(pipeline, positions_at(find_registry_soon(pipeline)))
