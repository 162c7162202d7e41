"""What may come between a page of gc and its deletes, step by step.

Told of the product as it is in `tests/contract/test_gc.py`, and of a broken one, which it catches, in
`tests/simulation/test_broken_upkeep.py`.
"""

from __future__ import annotations

from photon.pipeline.event_key import EventKey
from photon.registry.consensus.acceptor import Delete
from photon.registry.interface import Claim
from photon.registry.operations.gc import gc_pass, raise_boundary
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
