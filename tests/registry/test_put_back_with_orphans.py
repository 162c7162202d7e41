"""A registry that is put back while an entry is on its way: the entry arrives behind a gap (L10)."""

from __future__ import annotations

import copy

import pytest

from photon.registry.appending import append, open_ledger
from photon.registry.entry import Entry
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.positions import Positions
from photon.registry.view import View, catch_up, current_register
from tests.registry.store_backends import LEDGER, Memory, down, entry, key, offered


def view_of(positions: Positions, name: str) -> View:
    view = View(current_register(positions), name)
    for ledger in view.register.ledgers(0):
        open_ledger(view, positions, ledger)
    return view


def grow(view: View, positions: Positions, entries: int) -> None:
    for _ in range(entries):
        append(view, positions, {LEDGER: lambda state: Entry()})
        catch_up(view, positions)


def put_back_while_an_entry_arrives(memory: Memory, gap: int = 1) -> View:
    """Copy the stores, let the ledger grow by `gap`, put the copies back; its next entry arrives then.

    Returns the view of who has read all of it.
    """
    writer = memory.client()
    view = view_of(writer, "writer")
    catch_up(view, writer)
    copies = [copy.deepcopy(store.items) for store in memory.stores]
    grow(view, writer, gap)
    position = view.states[LEDGER].next_position
    last = memory.stores[0].items[key(position - 1)].value
    assert last is not None
    for store, items in zip(memory.stores, copies, strict=True):
        store.items = items
    offered(writer.attempt(), position, entry(last))
    return view


@pytest.fixture
def memory() -> Memory:
    return Memory(3)


def test_a_view_whose_last_entry_is_gone_is_refused_though_an_entry_follows_it(memory: Memory) -> None:
    """Broken variant: the entry behind names the last one, so all seems well, and the gap stays for ever."""
    client = memory.client()
    view = put_back_while_an_entry_arrives(memory)
    with pytest.raises(RegistryMismatch, match=f"the last entry of ledger {LEDGER} is gone"):
        catch_up(view, client)


def test_a_view_from_before_the_gap_is_refused_and_does_not_wait_for_ever(memory: Memory) -> None:
    client = memory.client()
    before = view_of(client, "before")
    put_back_while_an_entry_arrives(memory)
    with pytest.raises(RegistryMismatch, match="no store that answers has the right copy"):
        catch_up(before, client)


def test_as_long_as_one_store_is_silent_it_may_have_the_entry(memory: Memory) -> None:
    client = memory.client()
    before = view_of(client, "before")
    put_back_while_an_entry_arrives(memory)
    memory.stores[2].fault = down
    with pytest.raises(RegistryUnavailable, match="no store that answers has the right copy"):
        catch_up(before, client)


@pytest.mark.parametrize("gap", [2, 3])
def test_who_fills_a_longer_gap_is_refused_where_it_meets_the_entry(memory: Memory, gap: int) -> None:
    client = memory.client()
    before = view_of(client, "before")
    put_back_while_an_entry_arrives(memory, gap)
    with pytest.raises(RegistryMismatch):
        grow(before, client, gap + 1)
