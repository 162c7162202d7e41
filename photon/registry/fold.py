"""The meaning of an entry after all entries before it in its ledger (L1 to L7). Pure but for `Holds`.

A `LedgerState` is what a ledger's prefix comes to, without the holds, which all ledgers of a view share.

An id's hold is *unclosed* as long as the `unclosed` of the id's current ledger has it; otherwise it is a
join (L9). So void and closed are two facts: a child inherits what each of its parents had left unclosed, cut
to its own range, and what a parent had closed stays closed.

A hold has *expired* for a ledger whose boundary is above all that the hold's own ledger holds, once that is
sealed. It counts no more, whether its generation is dropped already or not. So what an entry means does not
depend on when a reader hears of the drop (L12).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from photon.registry.entry import (
    FOR_EVER,
    NO_BOUNDARY_US,
    NO_RELEASE,
    Claimant,
    Claims,
    Close,
    Entry,
    Epoch,
    Free,
    Genesis,
    Hashes,
    LedgerId,
    Mask,
    NumberedRelease,
    ledger_numbers,
)
from photon.registry.holds import HashSet, Holds, Refs

ClaimsAt = tuple[LedgerId, int]  # the ledger and the position of an entry with claims


class OutOfOrder(Exception):
    """An entry was read before what it builds on: its parents' seals. Read these first."""


@dataclass(frozen=True, slots=True, eq=False)
class Unclosed:
    """The ids that one entry's claims hold and no close has decided yet, and the places of the records.

    Of two records of one event in one plan, the one whose place this is joins it.
    """

    claimant: Claimant
    hashes: Hashes
    files: npt.NDArray[np.uint32]
    offsets_bytes: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.hashes)

    def take(self, which: Mask | slice) -> Unclosed:
        """Some of it."""
        return Unclosed(self.claimant, self.hashes[which], self.files[which], self.offsets_bytes[which])

    def with_more(self, other: Unclosed) -> Unclosed:
        """Both parts of what one entry holds."""
        return Unclosed(
            self.claimant,
            np.concatenate((self.hashes, other.hashes)),
            np.concatenate((self.files, other.files)),
            np.concatenate((self.offsets_bytes, other.offsets_bytes)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class LedgerState:
    """A ledger after `next_position` entries. `of`: how many ledgers its generation has.

    `void_through`: by epoch the batch up to which claims are void. `over`: by datacenter the last epoch that
    claims nothing any more, nor does any before it. `latest_us`: the greatest time of what was held here.
    `entries_bytes`: the size of its entries. `release`: the last one.
    """

    ledger: LedgerId
    of: int
    next_position: int = 0
    checksum: bytes = b""
    is_open: bool = False
    is_sealed: bool = False
    boundary_us: int = NO_BOUNDARY_US
    void_through: Mapping[Epoch, int] = field(default_factory=dict)
    over: Mapping[str, int] = field(default_factory=dict)
    unclosed: Mapping[ClaimsAt, Unclosed] = field(default_factory=dict)
    latest_us: int = NO_BOUNDARY_US
    entries_bytes: int = 0
    release: NumberedRelease | None = None

    @property
    def takes_entries(self) -> bool:
        """Whether what is appended now counts."""
        return self.is_open and not self.is_sealed

    def covers(self, hashes: Hashes) -> Mask:
        """Which of these ids are in the ledger's range."""
        own: Mask = ledger_numbers(hashes, self.of) == self.ledger.number
        return own

    def is_void(self, epoch: Epoch, batch: int) -> bool:
        """Whether claims of this batch count no more (L3)."""
        return self.is_over(epoch) or batch <= self.void_through.get(epoch, 0)

    def is_over(self, epoch: Epoch) -> bool:
        """Whether the epoch was closed for ever, here or in a parent."""
        return epoch.number <= self.over.get(epoch.datacenter, 0)

    def unclosed_of(self, epoch: Epoch, through: int = FOR_EVER) -> dict[ClaimsAt, Unclosed]:
        """All that batches of an epoch, up to `through`, hold here and have not closed."""
        return {
            at: one
            for at, one in self.unclosed.items()
            if one.claimant.epoch == epoch and one.claimant.batch <= through
        }


StateOf = Callable[[LedgerId], LedgerState | None]  # None: its generation is dropped


def fold(state: LedgerState, entry: Entry, checksum: bytes, holds: Holds, state_of: StateOf) -> LedgerState:
    """The state after one more entry; `holds` are changed accordingly.

    `checksum` is the entry's own. `state_of` gives other ledgers' states. OutOfOrder, and nothing changes.
    """
    position = state.next_position
    if position == 0 and entry.genesis is not None:
        state = _opened(state, entry.genesis, state_of)
    is_sealed = state.is_sealed
    if state.takes_entries:
        if entry.boundary_us is not None:
            state = replace(state, boundary_us=max(state.boundary_us, entry.boundary_us))
        for close in entry.closes:
            state = _closed(state, close, holds)
        for free in entry.frees:
            _free_joins(state, free, holds)
        if entry.claims is not None:
            state = _claimed(state, position, entry.claims, entry.are_joins, holds, state_of)
        if entry.release is not None and entry.release.number > (state.release or NO_RELEASE).number:
            state = replace(state, release=entry.release)
        is_sealed = entry.seals
    return replace(state, next_position=position + 1, checksum=checksum, is_sealed=is_sealed)


def still_held(refs: Refs, state: LedgerState, state_of: StateOf) -> Mask:
    """Which ids of this ledger somebody holds, whose hold has not expired."""
    held = refs.are_held
    for ledger in refs.ledgers():
        if ledger != state.ledger and _is_expired(state_of(ledger), state):
            held &= ~refs.are_in(ledger)
    return held


def _is_expired(origin: LedgerState | None, state: LedgerState) -> bool:
    return origin is None or (origin.is_sealed and origin.latest_us < state.boundary_us)


def _opened(state: LedgerState, genesis: Genesis, state_of: StateOf) -> LedgerState:
    """The ledger with what its parents were at their seals (L7)."""
    unclosed: dict[ClaimsAt, Unclosed] = {}
    for parent in genesis.parents:
        before = state_of(parent)
        if before is None:
            continue  # dropped: all that it held has expired
        if not before.is_sealed:
            raise OutOfOrder(
                f"ledger {state.ledger} is open, and its parent {parent} was not read to its seal"
            )
        for at, one in before.unclosed.items():
            own = one.take(state.covers(one.hashes))
            if len(own):  # two parents may each have a part
                unclosed[at] = unclosed[at].with_more(own) if at in unclosed else own
    return replace(
        state, is_open=True, boundary_us=genesis.boundary_us, over=dict(genesis.void), unclosed=unclosed
    )


def _closed(state: LedgerState, close: Close, holds: Holds) -> LedgerState:
    """Claims up to a batch are decided: those that the close names are free, the others are joins (L4)."""
    undecided = state.unclosed_of(close.epoch, close.through)
    gone: Sequence[Free] = close.frees
    if close.frees_all:
        gone = [Free(*at, one.hashes) for at, one in undecided.items()]
    left = dict(undecided)
    for free in gone:
        at = (free.ledger, free.position)
        if at in left:
            hashes = free.hashes[are_among(free.hashes, left[at].hashes)]
            _free(state, at, hashes, holds)
            left[at] = left[at].take(~are_among(left[at].hashes, hashes))
    unclosed = {at: one for at, one in state.unclosed.items() if at not in undecided}
    if close.is_part:
        unclosed |= {at: one for at, one in left.items() if len(one)}
    over, void_through = dict(state.over), dict(state.void_through)
    datacenter, number = close.epoch
    if close.through == FOR_EVER:
        over[datacenter] = max(over.get(datacenter, 0), number)
    void_through[close.epoch] = max(void_through.get(close.epoch, 0), close.through)
    void_through = {
        one: batch for one, batch in void_through.items() if one.number > over.get(one.datacenter, 0)
    }
    return replace(state, over=over, void_through=void_through, unclosed=unclosed)


def _free_joins(state: LedgerState, named: Free, holds: Holds) -> None:
    """Free what these claims still hold and a close has decided (L11)."""
    at = (named.ledger, named.position)
    hashes = named.hashes[state.covers(named.hashes)]
    if at in state.unclosed:
        hashes = hashes[~are_among(hashes, state.unclosed[at].hashes)]
    _free(state, at, hashes, holds)


def _free(state: LedgerState, at: ClaimsAt, hashes: Hashes, holds: Holds) -> None:
    hashes = hashes[are_first(hashes)]
    holds.free(state.ledger.generation, hashes[holds.find(hashes).are(*at)])


def _claimed(
    state: LedgerState, position: int, claims: Claims, are_joins: bool, holds: Holds, state_of: StateOf
) -> LedgerState:
    """The claims hold what nobody held and no boundary has passed (L2, L5), unless they are void (L3)."""
    if state.is_void(claims.claimant.epoch, claims.claimant.batch) and not are_joins:
        return state
    counts = state.covers(claims.hashes) & (claims.times_us >= state.boundary_us)
    counts &= are_first(claims.hashes) & ~still_held(holds.find(claims.hashes), state, state_of)
    if not counts.any():
        return state
    hashes = claims.hashes[counts]
    holds.hold(state.ledger, position, hashes)
    unclosed = dict(state.unclosed)
    if not are_joins:
        one = Unclosed(claims.claimant, hashes, claims.files[counts], claims.offsets_bytes[counts])
        unclosed[state.ledger, position] = one
    latest_us = max(state.latest_us, int(claims.times_us[counts].max()))
    return replace(state, latest_us=latest_us, unclosed=unclosed)


def are_first(hashes: Hashes) -> Mask:
    """Which of the hashes did not occur before."""
    if len(hashes) < 2 or (hashes[1:, 0] > hashes[:-1, 0]).all():
        return np.ones(len(hashes), bool)
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))  # stable: of equal ones the first comes first
    ordered = hashes[order]
    first = np.ones(len(hashes), bool)
    first[order[1:]] = (ordered[1:] != ordered[:-1]).any(axis=1)
    return first


def are_among(some: Hashes, others: Hashes) -> Mask:
    """Which of `some` are in `others` too."""
    return HashSet(others).has(some)
