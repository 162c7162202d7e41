"""The state of a registry: its ledgers and what is in them, its endpoints with health and lag, its epochs.

It changes nothing: to see whether an endpoint takes writes, it writes what is there already. Ledgers are
told by a view, which is read to their ends; of an endpoint's copies a bounded number of pages is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from photon.pipeline.file import Pipeline
from photon.process.clock import MICROSECONDS, Clock, SystemClock
from photon.process.in_time import NotInTime, Question
from photon.registry.address import LedgersAddress
from photon.registry.entry import NO_TIME_US, Claims, Epoch, LedgerId, Times, told_boundary
from photon.registry.form import decode
from photon.registry.id_registry import IdRegistry
from photon.registry.opening import find_registry, open_reader, positions_at, read_register
from photon.registry.positions import Positions, Unconfirmed
from photon.registry.register import Members, Register
from photon.registry.stores.copies import REGISTER_KEY, NoReply, ledger_key
from photon.registry.stores.endpoint import StoreSize, UpkeepStore
from photon.registry.stores.opening import ADMIN_TIMEOUT, upkeep_stores
from photon.registry.view import View, newest_states

Health = Literal["up", "takes no writes", "does not answer", "does not let us in", "out of use"]

PAGES_COUNTED = 64  # newest positions of a ledger at each endpoint, a megabyte a page
# A ledger's rate is that of its newest entries, by their events' times: a minute's, while batches are live.
RATED_POSITIONS = 64
MOST_EVENTS = 0.8  # a share of theirs gives the times: some events come late, and some far ahead
# AWS writes so much of one key range a second, however much a table may take in all; a ledger is one range.
RANGE_BYTES_PER_SECOND = 1_000 * 1_024


@dataclass(frozen=True, slots=True)
class RegistrySize:
    """How much there is of a registry: what is not dropped."""

    generations: int
    ledgers: int
    ids: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """One ledger. `home`: the datacenter whose events it is for first; `ids`: those that are held in it."""

    ledger: str
    home: str
    state: Literal["open", "sealed", "not open"]
    positions: int
    ids: int
    bytes: int
    boundary_us: int | None


@dataclass(frozen=True, slots=True)
class EpochRow:
    """The newest epoch of a datacenter, and how many ids its epochs hold that no close has decided."""

    datacenter: str
    number: int
    state: Literal["live", "over"]
    unclosed: int


@dataclass(frozen=True)
class EndpointState:
    """One endpoint: how it answers, how much it has, and how many of the positions looked at it lacks.

    What is just being appended may count as behind. Items and bytes are by its own count, on AWS hours old.
    """

    number: int  # place of the endpoint in the pipeline file, from 1
    endpoint: str
    table: str
    health: Health
    problem: str = ""  # why it is not up
    read_ms: float | None = None  # the time of one read
    items: int | None = None
    bytes: int | None = None
    positions: int = 0  # positions that were looked at
    behind: int = 0  # positions of these that the endpoint lacks

    @property
    def answers(self) -> bool:
        """Whether it can be read, and is compared."""
        return self.health in ("up", "takes no writes")


@dataclass(frozen=True)
class RegistryState:
    """A registry at one time. `bytes_per_second`: of the ledger that takes most; None: nobody knows."""

    pipeline: str
    at_us: int
    register: Register
    endpoints: Sequence[EndpointState]
    size: RegistrySize = RegistrySize(0, 0, 0, 0)
    ledgers: Sequence[LedgerRow] = ()
    epochs: Sequence[EpochRow] = ()
    bytes_per_second: float | None = None
    has_key_ranges: bool = field(default=True, repr=False)  # a local server has none

    @property
    def boundary_us(self) -> int | None:
        """Events of before are too old; None: none is."""
        return told_boundary(self.register.boundary_us)

    @property
    def ledger_load(self) -> float | None:
        """The share of what one key range bears that the busiest ledger takes."""
        if self.bytes_per_second is None or not self.has_key_ranges:
            return None
        return self.bytes_per_second / RANGE_BYTES_PER_SECOND

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "pipeline": self.pipeline,
            "at_us": self.at_us,
            **asdict(self.size),
            "boundary_us": self.boundary_us,
            "bytes_per_second": self.bytes_per_second,
            "incarnation": self.register.incarnation,
            "members_version": self.register.members.version,
            "on_hold": list(self.register.on_hold),
            "given_up": list(self.register.given_up),
            "is_refilling": self.register.is_refilling,
            "endpoints": [asdict(one) for one in self.endpoints],
            "epochs": [asdict(one) for one in self.epochs],
            "ledgers": [asdict(one) for one in self.ledgers],
        }


def registry_state(
    pipeline: Pipeline,
    grace_seconds: float | None = None,
    endpoints_only: bool = False,
    clock: Clock | None = None,
) -> RegistryState:
    """The state of a pipeline's registry now. RegistryUnavailable, and what `find_registry` raises.

    `endpoints_only`: nothing of its ledgers. `grace_seconds`: an endpoint that takes longer does not answer.
    """
    now_us = (clock or SystemClock()).now_us()
    address = find_registry(pipeline, grace_seconds)
    if endpoints_only:
        register = read_register(pipeline, positions_at(address))
        return RegistryState(
            pipeline.name, now_us, register, _endpoints(address, register, {}, grace_seconds)
        )
    registry = open_reader(pipeline, grace_seconds)
    view = registry.view
    ends = {ledger_key(view.register.incarnation, one): s.next_position for one, s in view.states.items()}
    ledgers = ledger_rows(view)
    return RegistryState(
        pipeline.name,
        now_us,
        view.register,
        _endpoints(address, view.register, ends, grace_seconds),
        _size_of(view, ledgers),
        ledgers,
        epoch_rows(view),
        busiest_bytes_per_second(registry),
        has_key_ranges=pipeline.registry.endpoints != "local",
    )


# -- ledgers


def size_of(view: View) -> RegistrySize:
    """How much there is, as far as the view was read."""
    return _size_of(view, ledger_rows(view))


def _size_of(view: View, ledgers: Sequence[LedgerRow]) -> RegistrySize:
    ids, size_bytes = sum(one.ids for one in ledgers), sum(one.bytes for one in ledgers)
    return RegistrySize(len(view.register.live_generations), len(ledgers), ids, size_bytes)


def ledger_rows(view: View) -> list[LedgerRow]:
    """Each ledger that is not dropped, oldest first."""
    ids = view.holds.count_by_ledger()
    return [
        LedgerRow(
            str(ledger),
            _home(view.register, ledger),
            "sealed" if state.is_sealed else "open" if state.is_open else "not open",
            state.next_position,
            ids[ledger],
            state.entries_bytes,
            told_boundary(state.boundary_us),
        )
        for ledger, state in sorted(view.states.items())
    ]


def _home(register: Register, ledger: LedgerId) -> str:
    homes = register.generations[ledger.generation].homes
    return homes[ledger.number] if ledger.number < len(homes) else ""


def epoch_rows(view: View) -> list[EpochRow]:
    """Each datacenter's newest epoch."""
    unclosed: Counter[str] = Counter()
    for state in newest_states(view):
        for one in state.unclosed.values():
            unclosed[one.claimant.epoch.datacenter] += len(one.hashes)
    return [
        EpochRow(name, number, "over" if view.is_over(Epoch(name, number)) else "live", unclosed[name])
        for name, number in sorted(view.register.epochs.items())
    ]


def busiest_bytes_per_second(registry: IdRegistry) -> float | None:
    """The bytes a second of the ledger that takes most, by its newest entries and their events' times."""
    states = [state for state in registry.view.states.values() if state.takes_entries]
    first = {one.ledger: max(0, one.next_position - RATED_POSITIONS) for one in states if one.next_position}
    if not first:
        return None
    rates = [bytes_per_second(values) for values in _values(registry.positions, first).values()]
    return max((rate for rate in rates if rate is not None), default=None)


def _values(positions: Positions, first: Mapping[LedgerId, int]) -> dict[LedgerId, Sequence[bytes]]:
    while True:
        attempt = positions.attempt()
        tails = attempt.read(first)
        try:
            attempt.confirm()
        except Unconfirmed:
            continue
        return {ledger: tail.values for ledger, tail in tails.items()}


def bytes_per_second(values: Sequence[bytes]) -> float | None:
    """How fast a ledger grows, by some entries in a row; None where their events' times do not tell. Pure.

    Most events lie between two times. The last of each entry tell nothing of a catch-up, which reads many
    files at once; and some events come late.
    """
    times_us = [_times_us(decode(value, f"entry {number}").claims) for number, value in enumerate(values)]
    known = [place for place, some in enumerate(times_us) if len(some)]
    if len(known) < 2:
        return None
    first_us, last_us = np.quantile(np.concatenate(times_us), (0.5 - MOST_EVENTS / 2, 0.5 + MOST_EVENTS / 2))
    grown_bytes = sum(map(len, values[known[0] + 1 : known[-1] + 1]))
    took_us = float(last_us - first_us)
    return MOST_EVENTS * grown_bytes * MICROSECONDS / took_us if took_us > 0 else None


def _times_us(claims: Claims | None) -> Times:
    return np.empty(0, np.int64) if claims is None else claims.times_us[claims.times_us != NO_TIME_US]


# -- endpoints


def _endpoints(
    address: LedgersAddress, register: Register, ends: Mapping[str, int], grace_seconds: float | None
) -> list[EndpointState]:
    members = register.members
    stores = upkeep_stores(address, members)
    names = [(str(one), store.table) for one, store in zip(address.endpoints, stores, strict=True)]
    asked = [
        Question(partial(_probed, slot, names[slot], store, members, ends))
        for slot, store in enumerate(stores)
    ]
    return [_in_time(one, slot, names[slot], grace_seconds) for slot, one in enumerate(asked)]


def _in_time(
    asked: Question[EndpointState], slot: int, name: tuple[str, str], seconds: float | None
) -> EndpointState:
    try:
        return asked.answer(ADMIN_TIMEOUT.total_seconds() * PAGES_COUNTED if seconds is None else seconds)
    except NotInTime as error:
        return EndpointState(slot + 1, *name, "does not answer", str(error))


def _probed(
    slot: int, name: tuple[str, str], store: UpkeepStore, members: Members, ends: Mapping[str, int]
) -> EndpointState:
    state = EndpointState(slot + 1, *name, "up")
    if slot in members.down:
        return replace(
            state, health="out of use", problem="until a repair of it has ended: one runs, or died"
        )
    clock = SystemClock()
    began_us = clock.elapsed_us()
    reply = store.get(REGISTER_KEY)
    if isinstance(reply, NoReply):
        return replace(state, health=reply.problem, problem=reply.reason)
    state = replace(state, read_ms=(clock.elapsed_us() - began_us) / 1_000)
    touched = store.touch()
    if isinstance(touched, NoReply):  # a full disk, a right that is missing: it answers, and gets behind
        state = replace(state, health="takes no writes", problem=touched.reason)
    size = store.size()
    if isinstance(size, StoreSize):
        state = replace(state, items=size.items, bytes=size.bytes)
    for ledger, end in ends.items():
        counted = store.count(ledger, end, PAGES_COUNTED)
        if isinstance(counted, NoReply):
            return replace(state, health="does not answer", problem=counted.reason)
        looked_at = end - counted.first
        state = replace(
            state,
            positions=state.positions + looked_at,
            behind=state.behind + looked_at - counted.values,
        )
    return state
