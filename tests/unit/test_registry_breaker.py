"""An endpoint that does not answer costs one time-out, not one a batch; and many ids are one id's rounds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from photon.ledger.stores import concurrency_limit
from photon.ledger.stores.breaker import SAID_AFTER_SECONDS, Breaker
from photon.ledger.stores.channel import Threads
from photon.ledger.stores.copies import NoReply
from photon.ledger.stores.health import Health
from photon.pipeline.event_key import EventKey
from photon.pipeline.sections import Registry
from photon.registry.consensus.acceptor import Acceptor, Insert, ReadReply, WriteReply
from photon.registry.consensus.layout import ItemKey
from photon.registry.consensus.quorums import all_of_them
from photon.registry.endpoints.endpoints import Endpoints
from photon.registry.interface import Claim, Unknown, Won
from photon.registry.quorum.proposer import QuorumRegistry
from photon.testing.faulty_store import FaultyStore
from photon.testing.manual_clock import ManualClock
from photon.testing.memory_registry import memory_registry
from tests.e2e.process_marks import soon

EAST, WEST = "east:e:1#p:1:0", "west:e:1#p:1:0"
SETTINGS = Registry(total_timeout=timedelta(seconds=5))
KEY = ItemKey("p", "s")
GONE, BUSY = NoReply("timed out", "unreachable"), NoReply("throttled")
ERROR = NoReply("InternalServerError")
DENIED = NoReply("not you", "denied")


def claims(count: int, token: str = EAST, prefix: str = "id") -> list[Claim]:
    return [Claim(EventKey(f"{prefix}-{i}"), token) for i in range(count)]


def test_an_endpoint_that_did_not_answer_is_left_alone_until_a_probe_is_answered() -> None:
    clock = ManualClock()
    breaker = Breaker(3, clock)
    breaker.saw(1, [GONE])
    assert [breaker.lets_pass(slot) for slot in range(3)] == [True, False, True]
    assert not breaker.take_probe(1)
    clock.advance(1)
    assert [breaker.take_probe(1), breaker.take_probe(1)] == [True, False]  # one a pause
    breaker.saw(1, ["an answer"])
    assert breaker.lets_pass(1)


def test_an_endpoint_that_throttles_is_not_left_alone() -> None:
    breaker = Breaker(3, ManualClock())
    breaker.saw(1, [BUSY, GONE])
    assert breaker.lets_pass(1)


def test_an_endpoint_that_denies_is_left_alone_and_that_is_said_once_an_hour() -> None:
    clock = ManualClock()
    breaker = Breaker(3, clock)
    heard = [breaker.saw(1, [DENIED])]
    assert not breaker.lets_pass(1)
    for _ in range(60):  # a probe may read, and a write is denied again
        clock.advance(1)
        assert breaker.take_probe(1)
        heard += [breaker.saw(1, ["an answer"]), breaker.saw(1, [DENIED])]
    assert [news for news in heard if news] == ["denies", "is_back"]
    clock.advance(3600)
    breaker.saw(1, ["an answer"])
    assert [breaker.saw(1, [DENIED]), breaker.saw(1, ["an answer"])] == ["denies", "is_back"]


def test_a_silent_endpoint_that_answers_with_a_denial_is_said_to_deny() -> None:
    breaker = Breaker(3, ManualClock())
    assert [breaker.saw(1, replies) for replies in ([GONE], [DENIED], [GONE], [DENIED], ["an answer"])] == [
        "missed",
        "denies",
        None,
        None,
        "is_back",
    ]


def heard_each_second(breaker: Breaker, clock: ManualClock, replies: Sequence[object]) -> list[str | None]:
    """What is new about an endpoint that is heard of once a second."""
    heard: list[str | None] = []
    for reply in replies:
        heard.append(breaker.saw(1, [reply]))
        clock.advance(1)
    return heard


def test_a_silence_that_lasts_is_said_once_and_so_is_its_end() -> None:
    clock = ManualClock()
    seconds = round(SAID_AFTER_SECONDS)
    heard = heard_each_second(Breaker(3, clock), clock, [*[GONE] * 60, "an answer", "an answer"])
    expected = ["missed", *[None] * (seconds - 1), "is_silent", *[None] * (59 - seconds), "is_back", None]
    assert heard == expected


def test_an_endpoint_that_answers_with_errors_only_is_left_alone_after_a_while_and_that_is_said_once() -> (
    None
):
    clock = ManualClock()
    breaker = Breaker(3, clock)
    seconds = round(SAID_AFTER_SECONDS)
    heard = heard_each_second(breaker, clock, [ERROR] * seconds)
    assert (heard, breaker.lets_pass(1)) == ([None] * seconds, True)
    heard = heard_each_second(breaker, clock, [ERROR] * 30)
    assert (heard, breaker.lets_pass(1)) == (["fails", *[None] * 29], False)
    assert heard_each_second(breaker, clock, ["an answer", ERROR]) == ["is_back", None]
    assert breaker.lets_pass(1)


def test_errors_among_answers_do_not_make_an_endpoint_one_that_fails() -> None:
    clock = ManualClock()
    heard = heard_each_second(Breaker(3, clock), clock, [*[ERROR] * 5, "an answer"] * 10)
    assert {news for news in heard if news} == set()


def test_a_busy_endpoint_that_misses_some_requests_is_never_said_to_be_silent() -> None:
    clock = ManualClock()
    hiccup = [*[GONE] * round(SAID_AFTER_SECONDS), "an answer"]
    heard = heard_each_second(Breaker(3, clock), clock, hiccup * 10)
    assert {news for news in heard if news} == {"missed", "goes_on"}


def test_what_was_not_asked_says_nothing_of_an_endpoint() -> None:
    breaker = Breaker(3, ManualClock())
    not_asked = NoReply("spared", "not_asked")
    breaker.saw(1, [not_asked])
    assert breaker.lets_pass(1)
    breaker.saw(1, [GONE])
    breaker.saw(1, [not_asked])
    assert not breaker.lets_pass(1)


@pytest.mark.parametrize(("n", "down"), [(1, 1), (3, 2), (5, 3)])
def test_without_a_majority_all_are_asked(n: int, down: int) -> None:
    breaker = Breaker(n, ManualClock())
    for slot in range(down):
        breaker.saw(slot, [GONE])
    assert all(breaker.lets_pass(slot) for slot in range(n))


@pytest.mark.parametrize(("n", "down"), [(3, 1), (5, 2)])
def test_an_endpoint_that_is_known_to_be_down_costs_no_more_time_outs(n: int, down: int) -> None:
    clock = ManualClock()
    acceptors = [FaultyStore(clock) for _ in range(n)]
    registry = memory_registry(*acceptors, clock=clock, settings=SETTINGS)
    for acceptor in acceptors[:down]:
        acceptor.fail("down")
        acceptor.on_request = lambda kind, batch: clock.advance(0.1)  # no probe is due within the test
    assert registry.commit(claims(1)) == [Won()]
    noticed_us = clock.now_us()
    for batch in range(5):
        assert registry.commit(claims(100, prefix=f"b{batch}")) == [Won()] * 100
    assert clock.now_us() == noticed_us


@pytest.mark.parametrize("n", [1, 3])
def test_an_endpoint_that_falls_silent_during_a_call_is_not_asked_the_rest_of_it(n: int) -> None:
    acceptors = [FaultyStore() for _ in range(n)]
    requests = 500 // FaultyStore.reads_per_request
    endpoints = Endpoints(acceptors, Threads(concurrency=1), ManualClock())
    acceptors[0].fail("down")
    replies = endpoints.ask(
        lambda acceptor, batch: acceptor.read(batch),
        [ItemKey("p", str(number)) for number in range(500)],
        FaultyStore.reads_per_request,
        all_of_them,
    )
    endpoints.close()
    assert [acceptor.requests for acceptor in acceptors] == [1] + [requests] * (n - 1)
    assert {reply.kind for reply, *_ in replies if isinstance(reply, NoReply)} == {"unreachable", "not_asked"}


def test_a_slow_store_does_not_hold_up_requests_to_another() -> None:
    others_are_done = threading.Event()

    class Slow(FaultyStore):
        def read(self, batch: Sequence[ItemKey]) -> list[ReadReply]:
            assert others_are_done.wait(60)
            return super().read(batch)

    channel, quick = Threads(concurrency=1), FaultyStore()
    requests: list[tuple[Acceptor, Sequence[ItemKey]]] = [(Slow(), [KEY])] * 3
    exchange = channel.exchange(
        lambda acceptor, batch: acceptor.read(batch),
        [*requests, (quick, [KEY])],
        heard=lambda index, replies, seconds: None,
        is_write=False,
    )
    assert [index for index, _ in next(exchange)] == [3]
    others_are_done.set()
    assert sorted(index for come in exchange for index, _ in come) == [0, 1, 2]
    channel.close()


class ProbesAtOnce(Threads):
    """Threads, but background work is done at once."""

    def in_background(self, work: Callable[[], None]) -> None:
        work()


@pytest.mark.parametrize("seconds", [1, 10])
def test_a_silence_is_a_warning_only_if_it_lasts_and_a_hiccup_is_for_the_log(
    seconds: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = ManualClock()
    acceptors = [FaultyStore(clock) for _ in range(3)]
    memory_registry(*acceptors, clock=clock, settings=SETTINGS).close()
    registry = QuorumRegistry(acceptors, SETTINGS, clock, channel=ProbesAtOnce(4))
    acceptors[1].fail("down")
    for second in range(seconds):
        registry.commit(claims(2, prefix=f"b{second}"))
        clock.advance(1)
    acceptors[1].mend()
    registry.commit(claims(2, prefix="back"))
    registry.close()
    hiccup = ("INFO", "endpoint 2 of the registry missed a request: connection refused")
    goes_on = ("INFO", "endpoint 2 of the registry goes on")
    silence = ("WARNING", "endpoint 2 of the registry does not answer: connection refused")
    is_back = ("WARNING", "endpoint 2 of the registry answers again")
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == ([hiccup, goes_on] if seconds < SAID_AFTER_SECONDS else [hiccup, silence, is_back])


def test_an_endpoint_of_errors_only_is_told_to_the_user_with_what_it_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    health = Health(3, clock)
    for _ in range(round(SAID_AFTER_SECONDS) + 1):
        health.heard(1, [ERROR])
        clock.advance(1)
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert said == [("WARNING", "endpoint 2 of the registry answers with errors: InternalServerError")]
    assert health.prompt_among(range(3)) == {0, 2}


def test_an_endpoint_that_is_back_takes_part_again_after_a_pause() -> None:
    clock = ManualClock()
    acceptors = [FaultyStore(clock) for _ in range(3)]
    memory_registry(*acceptors, clock=clock, settings=SETTINGS).close()
    registry = QuorumRegistry(acceptors, SETTINGS, clock, channel=ProbesAtOnce(4))
    acceptors[0].fail("down")
    registry.commit(claims(1))
    # A majority ends a commit: the silence of the third may be noted a moment later.
    assert soon(lambda: not registry.health.lets_pass(0))
    acceptors[0].mend()
    registry.commit(claims(1, prefix="too-soon"))
    clock.advance(1)
    registry.commit(claims(1, prefix="again"))
    assert [key.s for key in acceptors[0].items if key.s.startswith("i")] == ["iagain-0"]


def test_a_lost_majority_leaves_commits_unknown_until_it_is_back() -> None:
    clock = ManualClock()
    acceptors = [FaultyStore(clock) for _ in range(3)]
    registry = memory_registry(*acceptors, clock=clock, settings=SETTINGS)
    for acceptor in acceptors[:2]:
        acceptor.fail("down")
    assert isinstance(registry.commit(claims(1))[0], Unknown)
    for acceptor in acceptors[:2]:
        acceptor.mend()
    assert registry.commit(claims(1)) == [Won()]


def rounds_of(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> int:
    """How many times, one after the other, endpoints are asked; each time all requests go out at once."""
    rounds = 0
    ask = Endpoints.ask

    def count(self: Endpoints, *given: Any, **more: Any) -> list[list[Any]]:
        nonlocal rounds
        rounds += bool(given[1])
        return ask(self, *given, **more)

    monkeypatch.setattr(Endpoints, "ask", count)
    work()
    monkeypatch.setattr(Endpoints, "ask", ask)
    return rounds


def rounds_for(monkeypatch: pytest.MonkeyPatch, n: int, story: str, ids: int) -> int:
    clock = ManualClock()
    acceptors = [FaultyStore(clock) for _ in range(n)]
    registry = memory_registry(*acceptors, clock=clock, settings=SETTINGS)
    registry.commit(claims(1, prefix="first"))
    if story in ("taken", "release"):
        registry.commit(claims(ids))
    if story == "degraded":
        for acceptor in acceptors[: n // 2]:
            acceptor.fail("down")
        registry.commit(claims(1, prefix="noticed"))
    works: dict[str, Callable[[], object]] = {
        "free": lambda: registry.commit(claims(ids)),
        "taken": lambda: registry.commit(claims(ids, WEST)),
        "degraded": lambda: registry.commit(claims(ids)),
        "lookup": lambda: registry.lookup([claim.key for claim in claims(ids)]),
        "release": lambda: registry.release(claims(ids)),
    }
    return rounds_of(monkeypatch, works[story])


# Of ids and of the register: inserts, check; and a read; or accepts and a check more; releases prepare first.
@pytest.mark.parametrize(
    ("story", "rounds"), [("free", 2), ("taken", 3), ("degraded", 4), ("lookup", 2), ("release", 4)]
)
@pytest.mark.parametrize("n", [3, 5])
def test_a_thousand_ids_take_as_many_sequential_rounds_as_one(
    n: int, story: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [rounds_for(monkeypatch, n, story, ids) for ids in (1, 1_000)] == [rounds, rounds]


class OnlyTogether(FaultyStore):
    """A store that answers inserts of many ids once all requests of a round are there, at each endpoint."""

    def __init__(self, together: threading.Barrier) -> None:
        super().__init__(ManualClock())
        self._together = together

    def insert(self, batch: Sequence[Insert]) -> list[WriteReply]:
        if len(batch) > 1:
            self._together.wait(timeout=60)
        return super().insert(batch)


@pytest.mark.parametrize("n", [1, 3, 5])
def test_all_requests_for_a_thousand_ids_are_under_way_at_once_if_concurrency_allows_it(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(concurrency_limit, "FIRST_LIMIT", 40)
    requests = 1_000 // FaultyStore.writes_per_request
    together = threading.Barrier(n * requests)
    registry = memory_registry(
        *(OnlyTogether(together) for _ in range(n)), settings=Registry(concurrent_requests=40)
    )
    assert registry.commit(claims(1_000)) == [Won()] * 1_000
    registry.close()
