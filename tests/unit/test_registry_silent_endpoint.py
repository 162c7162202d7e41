"""An endpoint that does not answer costs one time-out, and is left alone until a probe is answered."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from photon.registry.stores.copies import NoReply
from photon.registry.stores.health import SAID_AFTER_SECONDS, EndpointsHealth
from tests.support.manual_clock import ManualClock

GONE, BUSY = NoReply("timed out", "unreachable"), NoReply("slow down", "throttled")
ERROR = NoReply("InternalServerError")
DENIED = NoReply("not you", "denied")


def test_an_endpoint_that_did_not_answer_is_left_alone_until_a_probe_is_answered() -> None:
    clock = ManualClock()
    health = EndpointsHealth(3, clock)
    health.news_of(1, GONE)
    assert [health.lets_pass(slot) for slot in range(3)] == [True, False, True]
    assert not health.take_probe(1)
    clock.advance(1)
    assert [health.take_probe(1), health.take_probe(1)] == [True, False]  # one a pause
    health.news_of(1, "an answer")
    assert health.lets_pass(1)


def test_an_endpoint_that_throttles_is_not_left_alone() -> None:
    health = EndpointsHealth(3, ManualClock())
    health.news_of(1, BUSY)
    assert health.lets_pass(1)


def test_an_endpoint_that_denies_is_left_alone_and_that_is_said_once_an_hour() -> None:
    clock = ManualClock()
    health = EndpointsHealth(3, clock)
    heard = [health.news_of(1, DENIED, is_write=True)]
    assert not health.lets_pass(1)
    for _ in range(60):  # a probe may read, and a write is denied again
        clock.advance(1)
        assert health.take_probe(1)
        heard += [health.news_of(1, "an answer"), health.news_of(1, DENIED, is_write=True)]
    assert [news for news in heard if news] == ["denies"]
    clock.advance(3600)
    assert health.news_of(1, DENIED, is_write=True) == "denies"


def test_an_endpoint_that_denied_a_write_is_back_once_it_answers_one_and_may_deny_at_once_again() -> None:
    health = EndpointsHealth(3, ManualClock())
    heard = [
        health.news_of(1, reply, is_write)
        for reply, is_write in [(DENIED, True), ("read", False), ("written", True), (DENIED, True)]
    ]
    assert heard == ["denies", None, "is_back", "denies"]


def test_a_silent_endpoint_that_answers_with_a_denial_is_said_to_deny() -> None:
    health = EndpointsHealth(3, ManualClock())
    assert [health.news_of(1, reply) for reply in (GONE, DENIED, GONE, DENIED, "an answer")] == [
        "missed",
        "denies",
        None,
        None,
        "is_back",
    ]


def heard_each_second(
    health: EndpointsHealth, clock: ManualClock, replies: Sequence[object]
) -> list[str | None]:
    """Give one reply of an endpoint each second, and return what is said about each."""
    heard: list[str | None] = []
    for reply in replies:
        heard.append(health.news_of(1, reply))
        clock.advance(1)
    return heard


def test_a_silence_that_lasts_is_said_once_and_so_is_its_end() -> None:
    clock = ManualClock()
    seconds = round(SAID_AFTER_SECONDS)
    heard = heard_each_second(EndpointsHealth(3, clock), clock, [*[GONE] * 60, "an answer", "an answer"])
    expected = ["missed", *[None] * (seconds - 1), "is_silent", *[None] * (59 - seconds), "is_back", None]
    assert heard == expected


def test_an_endpoint_that_answers_with_errors_only_is_left_alone_after_a_while_and_that_is_said_once() -> (
    None
):
    clock = ManualClock()
    health = EndpointsHealth(3, clock)
    seconds = round(SAID_AFTER_SECONDS)
    heard = heard_each_second(health, clock, [ERROR] * seconds)
    assert (heard, health.lets_pass(1)) == ([None] * seconds, True)
    heard = heard_each_second(health, clock, [ERROR] * 30)
    assert (heard, health.lets_pass(1)) == (["fails", *[None] * 29], False)
    assert heard_each_second(health, clock, ["an answer", ERROR]) == ["is_back", None]
    assert health.lets_pass(1)


def test_errors_among_answers_do_not_make_an_endpoint_one_that_fails() -> None:
    clock = ManualClock()
    heard = heard_each_second(EndpointsHealth(3, clock), clock, [*[ERROR] * 5, "an answer"] * 10)
    assert {news for news in heard if news} == set()


def test_a_busy_endpoint_that_misses_some_requests_is_never_said_to_be_silent() -> None:
    clock = ManualClock()
    hiccup = [*[GONE] * round(SAID_AFTER_SECONDS), "an answer"]
    heard = heard_each_second(EndpointsHealth(3, clock), clock, hiccup * 10)
    assert {news for news in heard if news} == {"missed", "goes_on"}


def test_what_was_not_asked_says_nothing_of_an_endpoint() -> None:
    health = EndpointsHealth(3, ManualClock())
    not_asked = NoReply("spared", "not_asked")
    health.news_of(1, not_asked)
    assert health.lets_pass(1)
    health.news_of(1, GONE)
    health.news_of(1, not_asked)
    assert not health.lets_pass(1)


@pytest.mark.parametrize(("n", "down"), [(1, 1), (3, 2), (5, 3)])
def test_without_a_majority_all_are_asked(n: int, down: int) -> None:
    health = EndpointsHealth(n, ManualClock())
    for slot in range(down):
        health.news_of(slot, GONE)
    assert all(health.lets_pass(slot) for slot in range(n))
