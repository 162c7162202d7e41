"""The observer of all stores takes an id for cleared as protocol B6 does, no sooner and no later."""

from __future__ import annotations

from photon.registry.consensus.acceptor import Stored
from photon.registry.consensus.layout import SHARD_HASH, Cleared, ItemKey, encode_value, fast_value
from photon.registry.consensus.register import Members, Register, encode_register
from tests.simulation.observer import Observer

SLOTS = tuple(f"slot-{slot}-0" for slot in range(5))
KEY = ItemKey("0-00000", "c1")
EAST = "east:0e3a860e4f800a73:1#d8726281525c994d:2:20"


def observer_of(copies: int) -> Observer:
    """One that has seen so many of five stores take a token of east."""
    observer = Observer(len(SLOTS), lambda: 1.0, {KEY.s: 0})
    register = Register("searches", "simulated", SHARD_HASH, Members(1, SLOTS), ())
    observer.begin(register, Stored(encode_register(register)))
    for slot in range(copies):
        observer.saw(slot, SLOTS[slot], KEY, Stored(), Stored(fast_value(EAST)))
    return observer


def clear(observer: Observer, datacenter: str, *slots: int, incarnation: str = "") -> None:
    after = Stored(encode_value(Cleared(datacenter)))
    for slot in slots:
        observer.saw(slot, incarnation or SLOTS[slot], KEY, Stored(fast_value(EAST)), after)


def test_an_id_is_cleared_once_any_store_has_its_owners_name() -> None:
    for slots in [(0,), (0, 2, 3), range(5)]:
        observer = observer_of(copies=5)
        assert not observer.is_cleared_of(KEY, "east")
        clear(observer, "east", *slots)
        assert observer.is_cleared_of(KEY, "east"), slots


def test_the_name_of_another_datacenter_clears_nothing_for_the_owner() -> None:
    observer = observer_of(copies=5)
    clear(observer, "east", 0, 1, 2)
    assert not observer.is_cleared_of(KEY, "west")


def test_a_name_of_who_never_held_the_id_clears_nothing() -> None:
    observer = observer_of(copies=3)  # a fast round needs four
    clear(observer, "east", 0)
    assert not observer.is_cleared_of(KEY, "east")


def test_a_copy_at_a_store_that_was_replaced_clears_nothing() -> None:
    observer = observer_of(copies=5)
    clear(observer, "east", 0, incarnation="slot-0-older")
    assert not observer.is_cleared_of(KEY, "east")
