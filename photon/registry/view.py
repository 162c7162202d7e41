"""A view: the fold of every prefix that a process has read, of all ledgers that are not dropped.

`catch_up` reads on. A view belongs to one thread; others may be given what its methods return.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from photon.registry.claimants import Claimants
from photon.registry.entry import (
    Claimant,
    Claims,
    Epoch,
    Hashes,
    LedgerId,
    Mask,
    NumberedRelease,
    ledger_numbers,
)
from photon.registry.errors import RegistryMismatch
from photon.registry.fold import ClaimsAt, LedgerState, OutOfOrder, Unclosed, are_among, fold, still_held
from photon.registry.form import checksum, decode
from photon.registry.holds import NOBODY, HashSet, Holds, Refs
from photon.registry.positions import Appending, Attempt, Ending, EntryLost, Unconfirmed
from photon.registry.register import Register

NO_LEDGER = -1  # instead of a generation: the id's first ledger is not open yet
NO_PLACE = -1


class Current(NamedTuple):
    """The newest open ledger of each id, as columns: generation (NO_LEDGER: none is open) and number."""

    generations: npt.NDArray[np.int32]
    numbers: npt.NDArray[np.int64]

    def ledgers(self) -> list[tuple[LedgerId, npt.NDArray[np.intp]]]:
        """Each ledger, and the indices of its ids."""
        both = self.generations.astype(np.int64) << 16 | self.numbers
        return [
            (LedgerId(one >> 16, one & 0xFFFF), np.flatnonzero(both == one))
            for one in np.unique(both[self.generations != NO_LEDGER]).tolist()
        ]


class RecordPlaces(NamedTuple):
    """The place of the record by which its plan holds each id, as columns; NO_PLACE where nobody knows it."""

    files: npt.NDArray[np.int64]
    offsets_bytes: npt.NDArray[np.int64]


def places_of(hashes: Hashes, refs: Refs, unclosed: Iterable[tuple[ClaimsAt, Unclosed]]) -> RecordPlaces:
    """The places of the records that hold these ids, as far as their claims are among what is unclosed.

    A ledger and its children may have parts of the same claims.
    """
    places = RecordPlaces(np.full(len(hashes), NO_PLACE, np.int64), np.full(len(hashes), NO_PLACE, np.int64))
    for at, one in unclosed:
        held = np.flatnonzero(refs.are(*at))
        if len(held) and len(one):
            rows = HashSet(one.hashes).rows(hashes[held])
            held, rows = held[rows >= 0], rows[rows >= 0]
            places.files[held] = one.files[rows]
            places.offsets_bytes[held] = one.offsets_bytes[rows]
    return places


class FoundClaims(NamedTuple):
    """The claims that hold each id; see `Holders`."""

    refs: Refs
    are_held: Mask
    are_joins: Mask
    are_too_old: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Holders:
    """The holder of each id, as columns. `are_joins`: its close is in the view too (L9).

    `places`: of the records that hold what is not closed yet.
    """

    refs: Refs
    are_held: Mask
    are_joins: Mask
    are_too_old: Mask  # nobody holds them, and the boundary has passed them (L5)
    claimants: Mapping[ClaimsAt, Claimant]
    places: RecordPlaces

    def are_of(self, claimant: Claimant) -> Mask:
        """Which ids this plan holds, by whichever of its claims."""
        return self.are_held & self.refs.are_any(at for at, one in self.claimants.items() if one == claimant)

    def are_won(self, claims: Claims) -> Mask:
        """Which of these claims hold their ids: each its own, and none that the boundary has passed."""
        files, offsets_bytes = self.places
        at_own_place: Mask = (files == claims.files) & (offsets_bytes == claims.offsets_bytes)
        return at_own_place & self.are_of(claims.claimant) & ~self.are_too_old

    def holder(self, index: int) -> Claimant | None:
        """Who holds the id with this index."""
        if not self.are_held[index]:
            return None
        ledger = LedgerId(int(self.refs.generations[index]), int(self.refs.numbers[index]))
        return self.claimants[ledger, int(self.refs.positions[index])]


class View:
    """States of ledgers, holds, and who claimed at which position, all under one register.

    `writer`: names the process in entries that it appends by this view; no two processes have one name.
    """

    def __init__(self, register: Register, writer: str) -> None:
        self.register = register
        self.writer = writer
        self.remedy = ""  # for people, where a copy was put back; empty if nobody knows one
        self.holds = Holds()
        self.states: dict[LedgerId, LedgerState] = {}
        self.claimants = Claimants()
        self.new_releases: list[NumberedRelease] = []  # folded here, until somebody takes them away
        self.note(register)

    def note(self, register: Register) -> None:
        """Go by a register that was read later: new generations, and those that were dropped (L12)."""
        if register.incarnation != self.register.incarnation:
            raise RegistryMismatch(
                f"the registry of {register.pipeline} was made anew (incarnation {register.incarnation}, and"
                f" {self.register.incarnation} was read so far): start again"
            )
        if register == self.register and self.states:
            return  # as nearly always
        if is_older(register, self.register):
            raise self.mismatch("its register has gone back")
        self.register = register
        live = register.live_generations
        for ledger in [ledger for ledger in self.states if ledger.generation not in live]:
            del self.states[ledger]
        known = {*self.holds.generations, *(ledger.generation for ledger in self.claimants.ledgers())}
        for generation in known.difference(live):
            self._forget(generation)
        for generation in live:
            for ledger in register.ledgers(generation):
                of = register.generations[generation].ledgers
                self.states.setdefault(ledger, LedgerState(ledger, of))

    def _forget(self, generation: int) -> None:
        self.holds.drop(generation)
        self.claimants.drop(generation)
        for ledger, state in self.states.items():
            kept = {at: one for at, one in state.unclosed.items() if at[0].generation != generation}
            self.states[ledger] = replace(state, unclosed=kept)

    def _kin(self, ledger: LedgerId) -> tuple[int, tuple[LedgerId, ...]]:
        """The facts that a ledger's genesis names: how many ledgers its generation has, and its parents."""
        return self.register.generations[ledger.generation].ledgers, self.register.parents(ledger)

    def mismatch(self, what: str) -> RegistryMismatch:
        """The error to raise where the registry is not the one that the view was read from (L10)."""
        name = self.register.pipeline
        found = f"the registry of {name} is older than it was: {what}; a copy was put back"
        return RegistryMismatch(f"{found}. {self.remedy}" if self.remedy else found)

    def unsealed(self) -> list[LedgerId]:
        """The ledgers whose end is not known, parents first."""
        return sorted(ledger for ledger, state in self.states.items() if not state.is_sealed)

    def take(self, ledger: LedgerId, values: Sequence[bytes]) -> int:
        """Fold the entries that follow; how many were. The rest is to be read again, behind its parents.

        RegistryMismatch for an entry that does not follow on the last one (L10).
        """
        for number, value in enumerate(values):
            state = self.states[ledger]
            where = f"position {state.next_position} of ledger {ledger}"
            entry = decode(value, where)
            if entry.predecessor != state.checksum:
                raise self.mismatch(f"{where} does not follow on the one before")
            genesis = entry.genesis
            if genesis is not None and (genesis.ledgers, genesis.parents) != self._kin(ledger):
                raise self.mismatch(f"ledger {ledger} was opened in another generation than the register has")
            try:
                after = fold(state, entry, checksum(value), self.holds, self.states.get)
            except OutOfOrder:
                return number
            self.states[ledger] = replace(after, entries_bytes=state.entries_bytes + len(value))
            if after.release is not None and after.release != state.release:
                self.new_releases.append(after.release)
            if entry.claims is not None:
                self.claimants.put((ledger, state.next_position), entry.claims.claimant)
        return len(values)

    # -- what is known of ids

    def current(self, hashes: Hashes) -> Current:
        """Each id's newest open ledger."""
        generations = np.full(len(hashes), NO_LEDGER, np.int32)
        numbers = np.zeros(len(hashes), np.int64)
        for generation in reversed(self.register.live_generations):
            left = generations == NO_LEDGER
            if not left.any():
                break
            own = ledger_numbers(hashes, self.register.generations[generation].ledgers)
            is_open = np.array([self.states[one].is_open for one in self.register.ledgers(generation)])
            here = left & is_open[own]
            generations[here] = generation
            numbers[here] = own[here]
        return Current(generations, numbers)

    def holders(self, hashes: Hashes, times_us: npt.NDArray[np.int64] | None = None) -> Holders:
        """Who holds each id, and whether that is a join. By `times_us` of the events: which are too old."""
        found = self.find(hashes, times_us)
        claimants = {at: self.claimants[at] for at in found.refs.claims()}
        return Holders(*found, claimants, self._places(hashes, found))

    def _places(self, hashes: Hashes, found: FoundClaims) -> RecordPlaces:
        """Where the records lie that hold ids which are not closed."""
        unclosed = (each for state in newest_states(self) for each in state.unclosed.items())
        places = places_of(hashes, found.refs, unclosed)
        is_open = found.are_held & ~found.are_joins
        for column in places:
            column[~is_open] = NO_PLACE
        return places

    def find(self, hashes: Hashes, times_us: npt.NDArray[np.int64] | None = None) -> FoundClaims:
        """Find the claims that hold each id."""
        refs = self.holds.find(hashes)
        held, joins, too_old = (np.zeros(len(hashes), bool) for _ in range(3))
        for ledger, indices in self.current(hashes).ledgers():
            state = self.states[ledger]
            own = refs.take(indices)
            held[indices] = still_held(own, state, self.states.get)
            joins[indices] = held[indices]
            # Claims of the ledger itself are unclosed as a whole; a parent may have closed some of its own.
            joins[indices[own.are_any(at for at in state.unclosed if at[0] == ledger)]] = False
            for at in [at for at in state.unclosed if at[0] != ledger]:
                where = indices[own.are(*at)]
                joins[where] &= ~are_among(hashes[where], state.unclosed[at].hashes)
            if times_us is not None:
                too_old[indices] = ~held[indices] & (times_us[indices] < state.boundary_us)
        refs.generations[~held] = NOBODY
        return FoundClaims(refs, held, joins, too_old)

    def still_free(self, state: LedgerState, claims: Claims) -> Claims:
        """Those of the claims that count in a ledger now: not too old, and held by nobody."""
        young = claims.take(claims.times_us >= state.boundary_us)
        return young.take(~still_held(self.holds.find(young.hashes), state, self.states.get))

    def ids_of(self, datacenter: str) -> Iterator[Hashes]:
        """The ids that a datacenter's claims hold, part by part."""
        for generation, run, held in self.holds.held():
            for number in np.unique(run.numbers[held]).tolist():
                claims = self.claimants.items(LedgerId(generation, number))
                own = [position for position, one in claims if one.epoch.datacenter == datacenter]
                mask = held & (run.numbers == number) & np.isin(run.positions, np.array(own, np.uint32))
                if mask.any():
                    yield np.stack((run.upper[mask], run.lower[mask]), axis=1)

    def is_over(self, epoch: Epoch) -> bool:
        """Whether any ledger says that the epoch was closed for ever."""
        return any(state.is_over(epoch) for state in self.states.values())

    @property
    def last_release(self) -> NumberedRelease | None:
        """The last release that was read; None: there is none."""
        return max((state.release for state in self.states.values() if state.release), default=None)

    def closed_through(self, epoch: Epoch) -> int:
        """The greatest batch of the epoch that a close names, in any ledger; 0: none (L10)."""
        return max((state.void_through.get(epoch, 0) for state in self.states.values()), default=0)


def is_older(register: Register, than: Register) -> bool:
    """Whether a register that was read later has less in it: a copy of the registry was put back (L10)."""
    counters = ((register.epochs.get(name, 0), number) for name, number in than.epochs.items())
    both = zip(register.generations, than.generations, strict=False)
    if any((one.ledgers, one.boundary_us) != (other.ledgers, other.boundary_us) for one, other in both):
        return True
    pairs = (
        *counters,
        (register.members.version, than.members.version),
        (register.boundary_us, than.boundary_us),
        (len(register.generations), len(than.generations)),
        (register.acknowledgements, than.acknowledgements),
        (register.live_generations[:1], than.live_generations[:1]),
    )
    return any(now < before for now, before in pairs)  # type: ignore[operator]


def catch_up(view: View, positions: Appending, ledgers: Iterable[LedgerId] | None = None) -> set[LedgerId]:
    """Read each of these ledgers, or all that may have more, to an end that was there after the call began.

    Returns those whose next position is undecided: whoever appends there settles it. RegistryUnavailable;
    RegistryMismatch if the registry is not the one that the view was read from (L10).
    """
    ended: dict[LedgerId, Ending] = {}
    seen_early: set[LedgerId] = set()
    while True:
        while left := [ledger for ledger in _to_read(view, ledgers) if ledger not in ended]:
            ended |= _read_on(view, positions, left)
        early = _opened_early(view, positions, ended)
        if not early:
            break
        if early & seen_early:  # their parents were asked since, and have no end
            raise view.mismatch(f"ledger {min(early)} is open, and its parents have no end")
        seen_early = early
        for ledger in early:
            for parent in view.register.parents(ledger):
                ended.pop(parent, None)
    return {ledger for ledger, ending in ended.items() if ending == "undecided" and ledger in view.states}


def _read_on(view: View, positions: Appending, ledgers: Sequence[LedgerId]) -> dict[LedgerId, Ending]:
    """Read these ledgers once; those whose end was reached, and how they ended.

    The last entries are asked for even where others stand behind them: where a copy was put back, an entry
    that was on its way may have arrived behind the gap.
    """
    attempt = positions.attempt()
    states = [view.states[ledger] for ledger in ledgers]
    try:
        tails = attempt.read({state.ledger: state.next_position for state in states})
    except EntryLost as error:
        if confirm(view, attempt, states) and all(state.ledger in view.states for state in states):
            raise view.mismatch(str(error)) from None
        return {}
    if not confirm(view, attempt, states):
        return {}
    for ledger in sorted(tails):  # parents first
        if ledger in view.states:
            view.take(ledger, tails[ledger].values)
    return {ledger: tail.ending for ledger, tail in tails.items() if tail.ending != "more"}


def _opened_early(view: View, positions: Appending, ended: Mapping[LedgerId, Ending]) -> set[LedgerId]:
    """Ledgers with entries whose parents have nothing more: only a registry that was put back has them."""
    endless = {one for one, end in ended.items() if end == "nothing" and one in view.unsealed()}
    waiting = {
        ledger: 0 for ledger in view.unsealed() if not endless.isdisjoint(view.register.parents(ledger))
    }
    if not waiting:
        return set()
    attempt = positions.attempt()
    tails = attempt.read(waiting)
    return {one for one, tail in tails.items() if tail.values} if confirm(view, attempt) else set()


def newest_states(view: View) -> list[LedgerState]:
    """The ledgers that are the newest open one of some ids: sealed ones too, until all their children open.

    A child is born with what its parents have: if one of them lags behind, so does the child.
    """
    unopened = [ledger for ledger, state in view.states.items() if not state.is_open]
    awaited = {parent for ledger in unopened for parent in view.register.parents(ledger)}
    states = view.states.items()
    return [one for ledger, one in states if one.takes_entries or (one.is_open and ledger in awaited)]


def files_of_unclosed(view: View, epoch: Epoch) -> set[int]:
    """The numbers of the files that an epoch's unclosed claims name."""
    unclosed = (one for state in newest_states(view) for one in state.unclosed.values())
    return {
        number for one in unclosed if one.claimant.epoch == epoch for number in np.unique(one.files).tolist()
    }


def unclosed_claimants(view: View) -> set[Claimant]:
    """The plans that hold something that no close has decided."""
    return {one.claimant for state in newest_states(view) for one in state.unclosed.values()}


def confirm(view: View, attempt: Attempt, states: Iterable[LedgerState] = ()) -> bool:
    """Whether what the attempt brought counts; the view goes by the register that says so.

    Of `states` it is asked too whether their last entries are still there. RegistryMismatch (L10).
    """
    last = {one.ledger: (one.next_position - 1, one.checksum) for one in states if one.next_position}
    try:
        register, lacking = attempt.check(last)
    except Unconfirmed:
        return False
    view.note(register)
    for ledger in lacking:
        if ledger in view.states:  # else it was dropped
            raise view.mismatch(f"the last entry of ledger {ledger} is gone")
    return True


def current_register(positions: Appending) -> Register:
    """The register, as a majority has it at a moment after the call began; RegistryUnavailable."""
    while True:
        try:
            return positions.attempt().confirm()
        except Unconfirmed:
            continue


def _to_read(view: View, ledgers: Iterable[LedgerId] | None) -> list[LedgerId]:
    """The ledgers that may have more, with those that they build on; none before all its parents' seals."""
    unsealed = view.unsealed()
    wanted = set(unsealed if ledgers is None else ledgers)
    for ledger in reversed(unsealed):
        if ledger in wanted:
            wanted.update(view.register.parents(ledger))
    waits = {one for one in wanted for parent in view.register.parents(one) if parent in unsealed}
    return [ledger for ledger in unsealed if ledger in wanted and ledger not in waits]
