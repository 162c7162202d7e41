"""Ledgers of a new incarnation on three real servers: filled, switched to, the old ones forgotten (L10)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from infra.servers.stores import StoreServer
from photon.pipeline.file import Pipeline
from photon.process.clock import SystemClock
from photon.registry.entry import Claimant, Claims, Epoch, LedgerId
from photon.registry.errors import RegistryMismatch, RegistryUnavailable
from photon.registry.opening import init_registry, open_reader, positions_at
from photon.registry.refilling import (
    FilledLedgers,
    as_filled,
    begin_ledgers,
    put_back,
    with_refill_begun,
    with_refill_ended,
)
from photon.registry.stores.copies import ledger_key
from photon.registry.view import View
from tests.simulation.world import hashed
from tests.support.claims import claims_for

pytestmark = pytest.mark.server

ROW = Claimant(Epoch("a", 3), 7, "p")


def claims_of(claimant: Claimant, *ids: str) -> Claims:
    return claims_for(claimant, hashed(*ids))


def test_what_was_filled_counts_from_the_switch_on_and_nothing_of_before(
    new_pipeline: Callable[[], Pipeline], servers: list[StoreServer]
) -> None:
    pipeline = new_pipeline()
    address = init_registry(pipeline, SystemClock())
    positions, before = positions_at(address), open_reader(pipeline)
    rowless = Claimant(Epoch("b", 1), 1, "p")
    before.claim(claims_of(rowless, "held"))

    incarnation = positions.change(with_refill_begun).filling
    with pytest.raises(RegistryUnavailable, match="are being put back"):
        before.claim(claims_of(rowless, "late"))
    filled = FilledLedgers(positions, incarnation)
    view = View(as_filled(filled.attempt().confirm(), incarnation), "refill")
    begin_ledgers(view, filled, {"a": 4, "b": 2})
    put_back(view, filled, [claims_of(ROW, *(f"row-{number}" for number in range(500)), "held")])
    positions.change(lambda now: with_refill_ended(now, incarnation, {"a": 4, "b": 2}, {}))
    positions.forget([LedgerId(0, 0), LedgerId(0, 1)], 1)

    with pytest.raises(RegistryMismatch, match="was made anew"):
        before.read_on()
    after = open_reader(pipeline)
    found = after.holders(hashed("row-0", "row-499", "held", "late"))
    assert found.are_of(ROW).tolist() == [True, True, True, False]
    assert found.are_joins.tolist() == [True, True, True, False]
    assert after.register.epochs == {"a": 4, "b": 2}
    assert after.view.is_over(rowless.epoch)
    for server, table in zip(servers, address.tables, strict=True):
        items = server.client().scan(TableName=table, ProjectionExpression="p")["Items"]
        old = {ledger_key(1, LedgerId(0, number)) for number in range(2)}
        assert old.isdisjoint({item["p"]["S"] for item in items})
