"""What a repair copies as it is, and what it reads of a shard at a time."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from photon.ledger.stores.decisions import ballot, majority
from photon.registry.consensus.acceptor import ABSENT, Page, Scanned, Stored
from photon.registry.consensus.decisions import recover
from photon.registry.consensus.layout import ItemKey, fast_value
from photon.registry.operations.copying import settled, window_of

EAST, WEST = fast_value("east:e:1#p:1:0"), fast_value("west:e:1#p:1:0")
LOW, HIGH = ballot(1, "a" * 16), ballot(2, "b" * 16)
KEY = ItemKey("0-00000", "a")
FAST, BY_BALLOT = Stored(EAST), Stored(EAST, LOW, LOW)
PROMISED = Stored(EAST, promised=LOW)


def copies(*stored: Stored) -> list[Scanned]:
    return [Scanned(KEY, "", one) for one in stored if one != ABSENT]


@pytest.mark.parametrize(
    ("n", "there", "copied"),
    [
        (3, [FAST, FAST], FAST),
        (3, [BY_BALLOT, BY_BALLOT], BY_BALLOT),
        (3, [FAST, ABSENT], None),
        (3, [FAST, Stored(WEST)], None),
        (3, [FAST, BY_BALLOT], None),
        (3, [FAST, PROMISED], None),
        (3, [BY_BALLOT, Stored(EAST, LOW, HIGH)], None),
        (3, [Stored(promised=LOW), Stored(promised=LOW)], None),
        (5, [FAST, FAST, FAST, Stored(WEST)], FAST),
        (5, [FAST, FAST, FAST, ABSENT], FAST),
        (5, [FAST, FAST, FAST, PROMISED], FAST),
        (5, [FAST, FAST, ABSENT, ABSENT], None),
        (5, [BY_BALLOT, BY_BALLOT, BY_BALLOT, FAST], BY_BALLOT),
    ],
)
def test_what_a_majority_has_and_has_promised_nothing_beyond_is_copied(
    n: int, there: list[Stored], copied: Stored | None
) -> None:
    found = settled(copies(*there), n)
    assert (None if found is None else found.stored) == copied


STATES = [
    ABSENT,
    Stored(promised=HIGH),
    *(Stored(value, promised=b) for value in (EAST, WEST) for b in ("", HIGH)),
    *(Stored(EAST, LOW, b) for b in (LOW, HIGH)),
    Stored(WEST, HIGH, HIGH),  # of one ballot there is one value
]


@pytest.mark.parametrize("n", [3, 5])
def test_nobody_can_go_on_with_anything_else_than_what_is_copied(n: int) -> None:
    """Whoever hears a majority, with the new store or without it, finds this value or a later one."""
    copied = 0
    for others in product(STATES, repeat=n - 1):
        found = settled(copies(*others), n)
        if found is None:
            continue
        copied += 1
        for count in range(majority(n), n + 1):
            for heard in combinations((*others, found.stored), count):
                latest = max(one.accepted for one in heard)
                if latest <= found.stored.accepted:
                    assert recover(heard, n) == found.stored.value, (others, heard)
    assert copied > 0


def page(shard_keys: str, last: str | None) -> Page:
    items = tuple(Scanned(ItemKey("0-00000", key), "", FAST) for key in shard_keys)
    return Page(items, None if last is None else ItemKey("0-00000", last))


def test_a_window_ends_where_the_first_of_its_pages_ends() -> None:
    window = window_of({0: page("abde", None), 2: page("abc", "c")})
    assert window.slots == (0, 2)
    assert [[copy.key.s for copy in copies] for copies in window.ids] == [["a", "a"], ["b", "b"], ["c"]]
    assert window.last == ItemKey("0-00000", "c")


def test_the_last_window_goes_to_the_end_of_the_shard() -> None:
    window = window_of({0: page("ab", None), 1: page("b", None)})
    assert sorted(len(copies) for copies in window.ids) == [1, 2]
    assert window.last is None
