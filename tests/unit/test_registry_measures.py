"""What a registry's client counts and times: calls, ids without an answer, requests by endpoint."""

from __future__ import annotations

import pytest

from photon.ledger.errors import RegistryUnavailable
from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.health import Health
from photon.measures import Measures
from photon.pipeline.event_key import EventKey
from photon.registry.interface import Claim
from photon.testing.manual_clock import ManualClock
from tests.unit.test_registry_quorum import EAST, client, endpoints

KEYS = [EventKey("a"), EventKey("b")]
CLAIMS = [Claim(key, EAST) for key in KEYS]


def test_a_call_is_timed_with_its_ids() -> None:
    registry = client(endpoints(3))
    registry.commit(CLAIMS)
    registry.lookup(KEYS[:1])
    measures = registry.meter.take()
    assert measures.sums["registry_ids", "commit"] == 2
    assert measures.sums["registry_ids", "lookup"] == 1
    assert measures.sums["registry_unanswered_ids", "commit"] == 0
    assert sum(measures.histograms["registry_call_seconds", "commit"].counts) == 1


def test_ids_without_an_answer_are_counted() -> None:
    acceptors = endpoints(3)
    registry = client(acceptors)
    registry.lookup(KEYS)  # the register is known
    registry.meter.take()
    for acceptor in acceptors:
        acceptor.fail("down")
    registry.commit(CLAIMS)
    with pytest.raises(RegistryUnavailable):
        registry.lookup(KEYS)
    sums = registry.meter.take().sums
    assert sums["registry_unanswered_ids", "commit"] == 2
    assert sums["registry_unanswered_ids", "lookup"] == 2


def test_every_endpoint_has_its_own_requests() -> None:
    acceptors = endpoints(3)
    registry = client(acceptors)
    acceptors[1].fail("down")
    registry.commit(CLAIMS)
    measures = registry.meter.take()
    assert measures.sums["registry_failed_requests", "2", "unreachable"] > 0
    assert measures.sums["registry_failed_requests", "1", "unreachable"] == 0
    assert ("registry_request_seconds", "3") in measures.histograms


def measured(*answers: object) -> Measures:
    health = Health(1, ManualClock())
    health.measure(0, answers, 0.1)
    return health.meter.take()


def test_a_request_that_is_throttled_in_part_counts_once() -> None:
    sums = measured("ok", NoReply("busy", "throttled"), NoReply("busy", "throttled")).sums
    assert sums["registry_failed_requests", "1", "throttled"] == 1


def test_what_was_not_sent_is_no_request() -> None:
    assert measured(NoReply("spared", "not_asked")) == Measures()
