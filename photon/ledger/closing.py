"""Closing: a batch's claims are decided, once its commit is; an epoch is ended for ever (L4, L9, L11).

Whoever closes for ever has fenced the epoch's table before, so that its rows change no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from photon.ledger.entry import FOR_EVER, Close, Entry, Epoch, Free, Mask
from photon.ledger.fold import ClaimsAt, LedgerState, Unclosed
from photon.ledger.form import MOST_FREES
from photon.ledger.positions import Positions
from photon.ledger.rolling import everywhere
from photon.ledger.view import View

# Which of these ids, held by one entry's claims, have no row: by one snapshot of the epoch's table.
Rowless = Callable[[ClaimsAt, Unclosed], Mask]


def close_batches(view: View, positions: Positions, epoch: Epoch, through: int, rowless: Rowless) -> None:
    """Close an epoch's batches up to this one, wherever the view shows something unclosed of them (L4).

    Their rows are committed, so that `rowless` changes no more. RegistryUnavailable.
    """

    everywhere(
        view,
        positions,
        lambda state: close_of(state, epoch, through, rowless),
        lambda state: bool(state.unclosed_of(epoch, through)),
    )


def end_epoch(
    view: View, positions: Positions, epoch: Epoch, rowless: Rowless, is_given_up: bool = False
) -> None:
    """Close an epoch for ever in every ledger, holds or not, and free what it holds without a row (L4).

    `is_given_up`: its lake is gone; nothing that it has not closed is a join. RegistryUnavailable.
    """

    def make(state: LedgerState) -> Entry:
        if is_given_up:
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
