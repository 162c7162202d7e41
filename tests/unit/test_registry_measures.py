"""A registry's client counts and times its requests, for each endpoint."""

from __future__ import annotations

from photon.process.measures import Measures
from photon.registry.stores.copies import NoReply
from photon.registry.stores.health import EndpointsHealth
from tests.support.manual_clock import ManualClock


def measured(answer: object) -> Measures:
    health = EndpointsHealth(1, ManualClock())
    health.measure(0, answer, 0.1)
    return health.meter.take()


def test_every_endpoint_has_its_own_requests() -> None:
    health = EndpointsHealth(2, ManualClock())
    health.measure(0, "ok", 0.1)
    health.measure(1, NoReply("gone", "unreachable"), 0.1)
    measures = health.meter.take()
    assert measures.sums["registry_failed_requests", "2", "unreachable"] == 1
    assert measures.sums["registry_failed_requests", "1", "unreachable"] == 0
    assert ("registry_request_seconds", "2") in measures.histograms


def test_a_request_that_is_throttled_counts_once() -> None:
    sums = measured(NoReply("busy", "throttled")).sums
    assert sums["registry_failed_requests", "1", "throttled"] == 1


def test_what_was_not_sent_is_no_request() -> None:
    assert measured(NoReply("spared", "not_asked")) == Measures()
