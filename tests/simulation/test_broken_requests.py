"""Requests and answers of the product broken on purpose: the interpreter of requests shows it (protocol B17).

What is replaced is what `DynamoAcceptor` sends, or how it reads the answer. Rules themselves are broken in
`test_broken_registries`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from photon.ledger.stores.copies import NoReply
from photon.registry.consensus.acceptor import Page
from photon.registry.dynamodb import acceptor
from tests.simulation.capricious import Capricious, a_repair_over_pages_that_end_early
from tests.simulation.catching import caught_by_story
from tests.simulation.catching_registries import (
    TWO_HELD,
    caught_by_simulation,
    caught_by_the_checker_of_histories,
)
from tests.simulation.simulated_wire import Wire

Patch = pytest.MonkeyPatch
PROMISE_FELL = "a promise fell"


def leave_out(monkeypatch: Patch, condition: str, parameter: int) -> None:
    """Have statements sent without this condition and the parameter that it compares with."""
    right = Wire._call

    def without_it(self: Wire, operation: str, **request: Any) -> Any:
        for one in (*request.get("Statements", ()), *request.get("TransactStatements", ())):
            if condition in one["Statement"]:
                one["Statement"] = one["Statement"].replace(condition, "")
                del one["Parameters"][parameter]
        return right(self, operation, **request)

    monkeypatch.setattr(Wire, "_call", without_it)


def test_an_accept_whose_statement_does_not_compare_ballots_overwrites_a_promise(
    monkeypatch: Patch,
) -> None:  # B4
    leave_out(monkeypatch, " AND (b IS MISSING OR b <= ?)", 5)
    caught_by_simulation(because=PROMISE_FELL, over_requests=True)
    caught_by_the_checker_of_histories(because=TWO_HELD, over_requests=True)


def test_a_prepare_whose_statement_does_not_compare_ballots_takes_a_promise_back(
    monkeypatch: Patch,
) -> None:  # B4
    leave_out(monkeypatch, " AND (b IS MISSING OR b < ?)", 3)
    caught_by_simulation(because=PROMISE_FELL, over_requests=True)


def test_reads_that_do_not_ask_for_consistency_are_out_of_date(monkeypatch: Patch) -> None:
    right = Wire._call

    def inconsistent(self: Wire, operation: str, **request: Any) -> Any:
        for wanted in request.get("RequestItems", {}).values():
            wanted["ConsistentRead"] = False
        return right(self, operation, **request)

    monkeypatch.setattr(Wire, "_call", inconsistent)
    caught_by_simulation(because="with all endpoints up an id stays undecided", over_requests=True)


@pytest.mark.slow
def test_a_key_that_was_left_unprocessed_and_is_taken_for_absent_hides_a_winner(
    monkeypatch: Patch,
) -> None:  # B8
    right = acceptor.items_of

    def without_unprocessed(response: Mapping[str, Any], *more: Any) -> Any:
        return right({**response, "UnprocessedKeys": {}}, *more)

    monkeypatch.setattr(acceptor, "items_of", without_unprocessed)
    caught_by_simulation(because="was cleared, and is still in slot", over_requests=True)


def test_a_repair_that_takes_a_short_page_for_the_last_leaves_ids_out(monkeypatch: Patch) -> None:
    right = acceptor.DynamoAcceptor.scan_shard

    def last_if_short(self: Any, shard: str, below: str, after: Any, limit: int) -> Page | NoReply:
        page = right(self, shard, below, after, limit)
        return Page(page.items, None) if isinstance(page, Page) and len(page.items) < limit else page

    monkeypatch.setattr(acceptor.DynamoAcceptor, "scan_shard", last_if_short)
    caught_by_story(
        lambda: a_repair_over_pages_that_end_early(Capricious(3, seed=11, transactions=False)),
        because="are left out",
    )
