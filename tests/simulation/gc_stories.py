"""What may come between a page of gc and its deletes, step by step.

Told of the product as it is in `tests/contract/test_gc.py`, and of a broken one, which it catches, in
`tests/simulation/test_broken_upkeep.py`.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from contextlib import suppress

from photon.faults import arm, disarm
from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Delete
from photon.registry.consensus.layout import FIXED_SHARDS, item_key
from photon.registry.interface import Claim
from photon.registry.operations.gc import gc_pass, raise_boundary
from photon.registry.operations.ranges import POSITIONS
from photon.testing.crashes import SimulatedCrash, raise_simulated_crash
from tests.simulation.repair_site import Site
from tests.simulation.repair_stories import EAST, ITEM, KEY, WEST, before, the_winner_must_be

OLD_US, BOUNDARY_US, YOUNG_US = 1, 10, 20


def an_id_without_a_time_that_is_registered_anew_before_it_is_deleted() -> None:
    site = Site(1)
    registry, store = site.client(), site.in_use()[0]
    registry.commit([Claim(EventKey(KEY.id, at_us=OLD_US), EAST)])

    def register_anew() -> None:
        store.delete([Delete(ITEM)])  # by another gc
        site.client().commit([Claim(EventKey(KEY.id, at_us=YOUNG_US), WEST)])

    before(store, "delete", register_anew)
    gc_pass(registry, raise_boundary(registry, BOUNDARY_US))
    the_winner_must_be(site, WEST)


def a_pass_that_died_and_one_with_a_later_boundary() -> None:
    """Also what lies where the first one was done, above its boundary and below the second one."""
    site = Site(1)
    keys = [EventKey(f"a{number}", at_us=BOUNDARY_US + number) for number in range(20)]
    site.client().commit([Claim(key, EAST) for key in keys])
    die_half_way(site, BOUNDARY_US)
    run_gc(site, YOUNG_US + BOUNDARY_US)
    nothing_must_be_left(site, keys)


def a_pass_that_died_within_a_shard_and_the_same_again() -> None:
    site = Site(1)
    candidates = (EventKey(f"a{number}", at_us=OLD_US) for number in itertools.count())
    of_one_shard = (key for key in candidates if item_key(key, ()).p == ITEM.p)
    keys = list(itertools.islice(of_one_shard, 10))
    site.client().commit([Claim(key, EAST) for key in keys])
    deletes = itertools.count(1)

    def die_at_the_fifth(kind: str, batch: object) -> None:
        if kind == "delete" and next(deletes) == 5:
            raise SimulatedCrash

    store = site.in_use()[0]
    store.on_request = die_at_the_fifth
    with suppress(SimulatedCrash):
        run_gc(site, BOUNDARY_US)
    store.on_request = lambda kind, batch: None
    must_have_left_a_position(site)
    run_gc(site, BOUNDARY_US)
    nothing_must_be_left(site, keys)


def die_half_way(site: Site, boundary_us: int) -> None:
    """A pass that dies when it has looked through half of the shards."""
    arm(f"gc.after_page:{FIXED_SHARDS // 2}", crash=raise_simulated_crash)
    with suppress(SimulatedCrash):
        run_gc(site, boundary_us)
    disarm()
    must_have_left_a_position(site)


def must_have_left_a_position(site: Site) -> None:
    assert any(key.p == POSITIONS for key in site.in_use()[0].items), "it left no position"


def run_gc(site: Site, boundary_us: int) -> None:
    registry = site.client()
    gc_pass(registry, raise_boundary(registry, boundary_us), page_items=1, items_between_notes=1)


def nothing_must_be_left(site: Site, keys: Sequence[EventKey]) -> None:
    left = [key.id for key in keys if any(site.copies(key))]
    assert not left, f"below the boundary there is still {left}"
