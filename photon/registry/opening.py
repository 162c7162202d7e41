"""A pipeline's registry: made once, found again, and opened by who joins or only reads."""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from photon.pipeline.file import Pipeline, pipelines_beside, settings_hash
from photon.pipeline.location import Location
from photon.pipeline.sections import Datacenter
from photon.process.clock import Clock
from photon.process.errors import WrongUsage
from photon.process.in_time import NotInTime, Question
from photon.registry.address import EndpointAddress, LedgersAddress, table_name
from photon.registry.errors import RegistryMismatch, RegistryMissing, RegistryUnavailable
from photon.registry.id_registry import IdRegistry
from photon.registry.positions import Positions
from photon.registry.register import MOST_LEDGERS, Generation, Members, Register
from photon.registry.stores.finding import RegistryFound, ask_stores, require_distinct_stores
from photon.registry.stores.opening import endpoint_at, open_positions
from photon.registry.stores.positions import StorePositions
from photon.registry.stores.sqlite.file import RegistryFile
from photon.registry.stores.sqlite.problems import NoAnswer
from photon.registry.view import View, catch_up, current_register
from photon.registry.view_store import VIEW_FILE, ViewStore, read_so_far, read_stored
from photon.storage.tokens import new_id

log = logging.getLogger(__name__)

BACKUP_SECONDS = 5.0  # of waiting for a turn
MAKING_SECONDS = 120.0  # others may be making it too
GRACE_SECONDS = 1.5  # for a minority of the endpoints, where a majority has answered
CLOSE_SECONDS = 0.5
RUNS_FOLDER = "view"  # has a view's runs, below the datacenter's work place

# Each process has its own: a fork must not use its parent's connections and threads.
_opened: dict[tuple[int, LedgersAddress], StorePositions] = {}
_lock = threading.Lock()


# -- making and finding


def init_registry(pipeline: Pipeline, clock: Clock) -> LedgersAddress:
    """Make the pipeline's registry, or return the one that is there with the same settings.

    Making it needs every endpoint, once. RegistryMismatch if the one that is there was made with other
    settings, or the endpoints do not belong together. RegistryUnavailable if one does not answer; then init
    can be repeated, for what it has done so far does no harm.
    """
    endpoints = endpoints_of(pipeline)
    try:
        found = ask_stores(pipeline, endpoints)
        if found is None:
            _make(pipeline, endpoints, clock)
            # That of another init which was faster, maybe: at each endpoint one of them wins.
            found = ask_stores(pipeline, endpoints)
    except RegistryUnavailable as error:
        raise RegistryUnavailable(
            f"{error}; to make a registry every endpoint has to answer, once: bring it up, then repeat:"
            f" photon registry init {pipeline.typed}"
        ) from error
    if found is None:
        raise RegistryUnavailable(
            f"the registry that was just made does not answer; repeat: photon registry init {pipeline.typed}"
        )
    return _checked(pipeline, endpoints, found)


def find_registry(pipeline: Pipeline, grace_seconds: float | None = None) -> LedgersAddress:
    """The pipeline's registry, never made here; a minority of its endpoints may be down or wiped.

    `grace_seconds`: a minority that takes longer is not waited for.

    RegistryMissing if there is none, RegistryMismatch if it belongs to other settings or its endpoints do not
    belong together, RegistryUnavailable if too few endpoints answer.
    """
    endpoints = endpoints_of(pipeline)
    found = ask_stores(pipeline, endpoints, grace_seconds)
    if found is None:
        places = ", ".join(map(str, endpoints))
        makes_it = "join" if pipeline.registry.endpoints == "local" else "registry init"
        raise RegistryMissing(
            f"There is no registry for the pipeline {pipeline.name} at {places}. If it is new, make it: "
            f"photon {makes_it} {pipeline.typed}. If it has joined before, its endpoints have lost their "
            "data, or the pipeline file names other ones: put the data back, or the file right. If the data "
            "is lost for good, make an empty registry, and put the ids of all rows into it: "
            f"photon registry init {pipeline.typed}, then photon registry refill {pipeline.typed}"
        )
    return _checked(pipeline, endpoints, found)


def find_registry_soon(pipeline: Pipeline) -> LedgersAddress:
    """As `find_registry`, for people who wait: a minority of endpoints that hang is not waited for."""
    return find_registry(pipeline, GRACE_SECONDS)


def endpoints_of(pipeline: Pipeline) -> tuple[EndpointAddress, ...]:
    """The stores that the pipeline file names, by slot."""
    endpoints = pipeline.registry.endpoints
    if endpoints == "local":
        return (EndpointAddress(pipeline.registry_folder),)
    return tuple(EndpointAddress(e.url, e.region, profile=e.profile, role=e.role) for e in endpoints)


def _make(pipeline: Pipeline, endpoints: tuple[EndpointAddress, ...], clock: Clock) -> None:
    tables = [endpoint_at(endpoint).directory.ensure_table_of(pipeline.name) for endpoint in endpoints]
    require_distinct_stores(pipeline, endpoints, tables)
    members = Members(1, tuple(table.removeprefix(table_name(pipeline.name, "")) for table in tables))
    # Others may be making it at the same moment, and outbid us for a while.
    patient = pipeline.registry.model_copy(update={"total_timeout": timedelta(seconds=MAKING_SECONDS)})
    positions = open_positions(LedgersAddress(pipeline.name, endpoints, members, patient), clock)
    try:
        positions.create(first_register(pipeline, members))
    finally:
        positions.close()


def first_register(pipeline: Pipeline, members: Members) -> Register:
    """The register of a new registry: a ledger for each datacenter, whose home it is."""
    homes = tuple(pipeline.datacenters)[:MOST_LEDGERS]
    first = Generation(len(homes), homes)
    return Register(pipeline.name, settings_hash(pipeline), members, generations=(first,))


def _checked(
    pipeline: Pipeline, endpoints: tuple[EndpointAddress, ...], found: RegistryFound
) -> LedgersAddress:
    """The address of a registry that was found. RegistryMismatch if it was made for other settings."""
    for slot, problem in found.problems.items():
        log.warning(
            "registry of %s: %s %s (a store without its data: photon registry repair %s --endpoint %s)",
            pipeline.name,
            endpoints[slot],
            problem,
            pipeline.typed,
            endpoints[slot],
        )
    address = LedgersAddress(pipeline.name, endpoints, found.members, pipeline.registry)
    where = f"{pipeline.file}: the registry {address.tables[0]} at {endpoints[0]}"
    if found.register.pipeline != pipeline.name:
        raise RegistryMismatch(
            f"{where} belongs to the pipeline {found.register.pipeline}; give each pipeline its own name"
        )
    if found.register.settings_hash != settings_hash(pipeline):
        raise RegistryMismatch(
            f"{where} was made with other settings of ids and times: it would not know what is joined."
            f" Put those settings back; or begin anew, with everything joined again: {begin_anew(pipeline)}"
        )
    return address


def copy_registry(pipeline: Pipeline, folder: Path) -> Path:
    """Copy a local registry into a folder: the file that is made. WrongUsage, RegistryUnavailable."""
    if pipeline.registry.endpoints != "local":
        raise WrongUsage(
            f"{pipeline.file} names endpoints: stop each and copy its folder, or use what AWS has for backups"
        )
    try:
        return RegistryFile(pipeline.registry_folder).copy_to(folder, BACKUP_SECONDS)
    except FileExistsError as error:
        raise WrongUsage(f"{error.filename} is there already: name another folder") from error
    except NoAnswer as error:
        raise RegistryUnavailable(f"the local registry can't be copied: {error}") from error


def begin_anew(pipeline: Pipeline) -> str:
    """The steps after which everything is joined again: the removal, as a command, and what else there is.

    A registry that other pipelines have too is not removed: this one gets a new name there.
    """
    is_local = pipeline.registry.endpoints == "local"
    is_shared = any(other.registry.endpoints == "local" for other in pipelines_beside(pipeline.file))
    places = [
        place
        for each in pipeline.datacenters.values()
        for place in (each.lake, each.state, each.work)
        if place is not None
    ]
    folders = [place for place in places if isinstance(place, Path)]
    folders += [pipeline.registry_folder] if is_local and not is_shared else []
    # Forced: a datacenter that never ran has no folders.
    steps = [f"rm -rf {' '.join(shlex.quote(str(folder)) for folder in folders)}"]
    steps += [f"remove all below {place}" for place in places if not isinstance(place, Path)]
    if is_shared or not is_local:
        steps.append("give the pipeline a new `name`, since its registry keeps what was joined")
    if not is_local:
        steps.append(f"make the registry of that name: photon registry init {pipeline.typed}")
    return "; ".join(steps)


# -- opening


def open_registry(
    pipeline: Pipeline,
    datacenter: str,
    positions: Positions | None = None,
    clock: Clock | None = None,
) -> IdRegistry:
    """The registry for a process that runs a datacenter: with its stored view, and nothing read on.

    `positions`: those of a test, or of a registry that was found already. ViewUnavailable,
    RegistryUnavailable, RegistryMismatch, and what `find_registry` raises.
    """
    positions = positions or positions_at(find_registry(pipeline), clock)
    place = pipeline.datacenters[datacenter]
    store = ViewStore(place.state, runs_of(place))
    with _remedy_is_told(pipeline):
        view = store.load(current_register(positions), f"{datacenter}-{new_id()}")
    return _with_remedy(pipeline, IdRegistry(positions, view, store))


def open_reader(
    pipeline: Pipeline, grace_seconds: float | None = None, from_stored: bool = True
) -> IdRegistry:
    """The registry for who only reads, read to its ends.

    Most of it comes from the newest view that a datacenter has stored, where one can be read. It writes
    nothing, neither into that view nor into the registry. `from_stored` False: all of it is read, and none
    of it yet. RegistryUnavailable, RegistryMismatch, and what
    `find_registry` raises.
    """
    positions = positions_at(find_registry(pipeline, grace_seconds))
    register = current_register(positions)
    view = next(stored_views(pipeline, register), None) if from_stored else None
    registry = _with_remedy(pipeline, IdRegistry(positions, view or View(register, f"reader-{new_id()}")))
    if from_stored:
        catch_up(registry.view, positions)
    return registry


def stored_views(pipeline: Pipeline, register: Register) -> Iterator[View]:
    """The views that datacenters have stored, under this register, as far as they can be read; newest first.

    RegistryMismatch if the registry is older than one of them (L10).
    """
    folders = [(place.state, runs_of(place)) for place in pipeline.datacenters.values()]
    there = [(state, runs) for state, runs in folders if (state / VIEW_FILE).is_file()]
    for state, runs in sorted(there, key=lambda one: read_so_far(one[0]), reverse=True):
        if (view := read_stored(state, runs, register, f"reader-{new_id()}")) is not None:
            yield view


def newest_incarnation(pipeline: Pipeline) -> int:
    """The highest incarnation of the ledgers that a datacenter's stored view has read; 0: there is none."""
    states = [place.state for place in pipeline.datacenters.values()]
    return max((read_so_far(state)[0] for state in states if (state / VIEW_FILE).is_file()), default=0)


def read_register(pipeline: Pipeline, positions: Positions | None = None) -> Register:
    """The pipeline's register, as a majority has it now. RegistryUnavailable, and see `find_registry`."""
    return current_register(positions or positions_at(find_registry(pipeline)))


def positions_at(address: LedgersAddress, clock: Clock | None = None) -> StorePositions:
    """The positions at `address`; the same object for the same address within one process."""
    key = (os.getpid(), address)
    with _lock:
        if key not in _opened:
            _opened[key] = open_positions(address, clock)
        return _opened[key]


def runs_of(place: Datacenter) -> Location:
    """Where the runs of a datacenter's view are, so that tasks on any machine can read them."""
    return place.work_place / RUNS_FOLDER


def close_registries() -> None:
    """Close all that this process has opened."""
    with _lock:
        opened = list(_opened.values())
        _opened.clear()
    for positions in opened:
        positions.close()


def close_registries_soon() -> None:
    """Close them; one that hangs ends with the process."""
    with suppress(NotInTime):
        Question(close_registries).answer(CLOSE_SECONDS)


@contextmanager
def _remedy_is_told(pipeline: Pipeline) -> Iterator[None]:
    """A stored view that is ahead of the registry says what to do, as one that is open does (L10)."""
    try:
        yield
    except RegistryMismatch as error:
        raise RegistryMismatch(f"{error}. {_remedy(pipeline)}") from error


def _with_remedy(pipeline: Pipeline, registry: IdRegistry) -> IdRegistry:
    """The registry, whose view says what to do where a copy was put back (L10)."""
    registry.view.remedy = _remedy(pipeline)
    return registry


def _remedy(pipeline: Pipeline) -> str:
    places = ", ".join(map(str, endpoints_of(pipeline)))
    return (
        f"If there is a later copy of it, put that one back ({places}). If not, put the ids of all rows back"
        f" into it, with every datacenter stopped: photon registry refill {pipeline.typed}"
    )
