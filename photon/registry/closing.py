"""Close batches, once they are committed, so that their claims are decided; and end epochs (L4, L9, L11).

A process that closes an epoch for ever has fenced its table before, so that its rows change no more. The
epoch's owner frees joins whose rows are gone, or else the process that has fenced and ended the epoch: by one
snapshot of its table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

from photon.registry.appending import everywhere
from photon.registry.entry import FOR_EVER, Claimant, Close, Entry, Epoch, Free, Hashes, LedgerId, Mask
from photon.registry.fold import ClaimsAt, LedgerState, Unclosed
from photon.registry.form import MOST_FREES
from photon.registry.positions import Positions
from photon.registry.view import View, newest_states

# Says which ids that one entry claims have no row, by one snapshot of the epoch's table.
Rowless = Callable[[ClaimsAt, Unclosed], Mask]
MOST_RIDING = 200  # ids that are freed beside claims: claims leave an entry room for so many


@dataclass(frozen=True, slots=True)
class Closing:
    """The batches that an epoch has committed and not closed yet, up to `through` (L4).

    Their rows are committed, so that `rowless` changes no more.
    """

    epoch: Epoch
    through: int
    rowless: Rowless
    # The next close of each ledger, and the state of which it was made.
    _made: dict[LedgerId, tuple[LedgerState, Entry]] = field(default_factory=dict, repr=False, compare=False)


def close_batches(view: View, positions: Positions, batches: Closing) -> None:
    """Close an epoch's batches up to this one, wherever the view shows something unclosed of them (L4).

    RegistryUnavailable.
    """
    if any(is_left(state, batches) for state in newest_states(view)):
        everywhere(view, positions, partial(next_close, batches=batches), partial(is_left, batches=batches))


def is_left(state: LedgerState, batches: Closing) -> bool:
    """Whether a ledger has something of these batches to close."""
    return bool(state.unclosed_of(batches.epoch, batches.through))


def next_close(state: LedgerState, batches: Closing | None) -> Entry | None:
    """The next entry that closes what is left of these batches in a ledger; made once for each state."""
    if batches is None or not is_left(state, batches):
        return None
    before, made = batches._made.get(state.ledger, (None, None))
    if made is None or before is not state:
        made = close_of(state, batches.epoch, batches.through, batches.rowless)
        batches._made[state.ledger] = state, made
    return made


def riding(state: LedgerState, batches: Closing | None) -> tuple[Close, ...] | None:
    """The closes of these batches that go beside claims in a ledger; None: they need entries of their own."""
    made = next_close(state, batches)
    if made is None:
        return ()
    found = made.closes
    frees = sum(len(free.hashes) for close in found for free in close.frees)
    return None if found[0].is_part or frees > MOST_RIDING else found


def end_epoch(view: View, positions: Positions, epoch: Epoch, rowless: Rowless | None) -> None:
    """Close an epoch for ever in every ledger, also where it holds nothing, and free ids without a row (L4).

    `rowless` None: its lake is gone; it has no join in batches that are not closed. RegistryUnavailable.
    """

    def make(state: LedgerState) -> Entry:
        if rowless is None:
            return Entry(closes=(Close(epoch, FOR_EVER, frees_all=True),))
        return close_of(state, epoch, FOR_EVER, rowless)

    def wants(state: LedgerState) -> bool:
        return not state.is_over(epoch) or bool(state.unclosed_of(epoch))

    everywhere(view, positions, make, wants)


def close_of(state: LedgerState, epoch: Epoch, through: int, rowless: Rowless) -> Entry:
    """The next entry that closes: a part, if there is too much to free for one."""
    frees = _frees(state, epoch, through, rowless)
    these = list(islice(frees, MOST_FREES))
    is_part = next(frees, None) is not None
    by_claims: dict[ClaimsAt, list[int]] = {}
    for at, index in these:
        by_claims.setdefault(at, []).append(index)
    named = tuple(Free(*at, state.unclosed[at].hashes[rows]) for at, rows in sorted(by_claims.items()))
    return Entry(closes=(Close(epoch, through, named, is_part),))


def _frees(
    state: LedgerState, epoch: Epoch, through: int, rowless: Rowless
) -> Iterator[tuple[ClaimsAt, int]]:
    for at, one in sorted(state.unclosed_of(epoch, through).items()):
        for index in rowless(at, one).nonzero()[0].tolist():
            yield at, index


def free_joins(
    view: View, positions: Positions, hashes: Hashes, are_freed: Callable[[Claimant], bool]
) -> None:
    """Free these ids wherever a claimant that is to be freed has them as joins. RegistryUnavailable."""

    def make(state: LedgerState) -> Entry | None:
        own = hashes[state.covers(hashes)]
        found = view.find(own)
        claims = [at for at in found.refs.claims() if are_freed(view.claimants[at])]
        wanted = found.are_joins & found.refs.are_any(claims)
        wanted[wanted.nonzero()[0][MOST_FREES:]] = False  # as many as go into an entry
        frees = ((at, own[wanted & found.refs.are(*at)]) for at in claims)
        named = tuple(Free(*at, some) for at, some in frees if len(some))
        return Entry(frees=named) if named else None

    everywhere(view, positions, make, lambda state: make(state) is not None)
