"""The events of generated logs: plain searches and clicks, and the ills with the outcome of each.

An ill is a small story of lines of its own, with events that no other line mentions, so that what is expected
simply adds up. Everything is a pure function of seed and index.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

Fault = Literal["broken_line", "missing_id", "bad_time", "not_utf8", "oversized_line"]
FAULTS: tuple[Fault, ...] = ("broken_line", "missing_id", "bad_time", "not_utf8", "oversized_line")

CLICK_DELAY_MEDIAN_SECONDS = 3.0
CLICK_DELAY_SIGMA = 1.0  # log-normal: nine of ten clicks come within 11 s
CLICK_DELAY_LEAST_SECONDS = 0.2
CLICK_DELAY_MOST_SECONDS = 60.0
WRITE_DELAY_SECONDS = 0.05  # a line is written at most this long after its event
STORY_GAP_SECONDS = (0.5, 5.0)  # between the lines of a story, where nothing else is said

WORDS = ("cheap", "flights", "zürich", "東京", "coffee, ground", '"used" bikes', "garden", "ear plugs")


@dataclass(frozen=True, slots=True)
class Query:
    """A search query: the primary event. `time_s` is in seconds since the start of the traffic."""

    id: str
    time_s: float
    user: str
    text: str


@dataclass(frozen=True, slots=True)
class Click:
    """A click on a result: the foreign event. Without `query_id` it has no key."""

    id: str
    query_id: str | None
    time_s: float
    position: int
    url: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line to be written, and when, in seconds since the start of the traffic."""

    at_s: float
    event: Query | Click
    place: int  # lines of one side with the same place go to the same stream of files
    fault: Fault | None = None
    next_stream: bool = False  # written to the stream after that of its place
    lags_s: tuple[float, ...] = ()  # how much later each datacenter gets its copy; empty: none does
    logged_s: float | None = None  # the time that it carries as `logged_at`; None: when it is written


@dataclass(frozen=True, slots=True)
class Story:
    """The lines of one instance of an ill, and by click id the query that they join it with."""

    lines: tuple[Line, ...]
    joined: Mapping[str, Query]


@dataclass(frozen=True, slots=True)
class Cast:
    """The material of a story: its events, its moment, and the chances of its own random numbers."""

    query: Query
    click: Click
    place: int
    number: int  # number of this instance among those of its ill
    late_seconds: float
    datacenters: int
    chance: random.Random

    def gap_s(self) -> float:
        return self.chance.uniform(*STORY_GAP_SECONDS)

    def line(self, event: Query | Click, at_s: float | None = None, **more: object) -> Line:
        """A line with an event, written at its own time unless told otherwise."""
        return Line(event.time_s if at_s is None else at_s, event, self.place, **more)  # type: ignore[arg-type]


Tell = Callable[[Cast], tuple[Line, ...]]


@dataclass(frozen=True, slots=True)
class Ill:
    """One thing that goes wrong with logs, and what one instance of it comes to."""

    name: str
    outcome: Counter[str]  # how many records of each class it adds, see `ExpectedOutcomes`
    tell: Tell | None  # None: an ill of the files, see `log_writer`


def _click_before_query(cast: Cast) -> tuple[Line, ...]:
    query, click = cast.query, cast.click
    if cast.number % 2:  # clocks differ: its time is before the query's, too
        click = replace(click, time_s=query.time_s - 0.5)
    return cast.line(click), cast.line(query, max(click.time_s, query.time_s) + cast.gap_s())


def _query_minutes_late(cast: Cast) -> tuple[Line, ...]:
    late_s = cast.late_seconds * cast.chance.uniform(1, 2)
    return cast.line(cast.click), cast.line(cast.query, cast.click.time_s + late_s)


def _query_never_comes(cast: Cast) -> tuple[Line, ...]:
    return (cast.line(cast.click),)


def _malformed_click(fault: Fault) -> Tell:
    return lambda cast: (cast.line(cast.click, fault=fault),)


def _malformed_query(cast: Cast) -> tuple[Line, ...]:
    return (cast.line(cast.query, fault=FAULTS[cast.number % len(FAULTS)]),)


def _click_without_key(cast: Cast) -> tuple[Line, ...]:
    return (cast.line(replace(cast.click, query_id=(None, "")[cast.number % 2])),)


def _click_twice(next_stream: bool) -> Tell:
    def tell(cast: Cast) -> tuple[Line, ...]:
        # The same bytes twice: another `logged_at` would make a conflicting record of each duplicate.
        once = cast.line(cast.click, logged_s=cast.click.time_s)
        again = replace(once, at_s=once.at_s + cast.gap_s(), next_stream=next_stream)
        return cast.line(cast.query), once, again

    return tell


def _copies_apart(cast: Cast) -> tuple[Line, ...]:
    lag_s = cast.chance.uniform(2, 10)
    late_copy = cast.number % cast.datacenters
    lags_s = tuple(lag_s if index == late_copy else 0.0 for index in range(cast.datacenters))
    return cast.line(cast.query, lags_s=lags_s), cast.line(cast.click, lags_s=lags_s)


def _query_twice(cast: Cast) -> tuple[Line, ...]:
    """Written in the wrong order, both well before the click, so that every datacenter knows both by then."""
    query = cast.query
    later = replace(query, time_s=query.time_s + 0.01, text=query.text + " again")
    return (
        cast.line(later),
        cast.line(query, later.time_s + 0.01, next_stream=bool(cast.number % 2)),
        cast.line(cast.click, cast.click.time_s + STORY_GAP_SECONDS[1]),
    )


_JOINS = Counter(joined_total=1, primary=1)
_TWICE = Counter(joined_total=1, duplicates=1, primary=1)

ILLS: tuple[Ill, ...] = (
    Ill("click_before_query", _JOINS, _click_before_query),
    Ill("query_minutes_late", _JOINS, _query_minutes_late),
    Ill("query_never_comes", Counter(unjoinable=1), _query_never_comes),
    Ill("file_rollover", Counter(), None),  # each even stream goes on in a new file, as by the hour
    Ill("rename_rotation", Counter(), None),  # each odd stream's file is renamed, and a new one begins
    *(Ill(fault, Counter(dead_letters=1), _malformed_click(fault)) for fault in FAULTS),
    Ill("malformed_query", Counter(primary_dead_letters=1), _malformed_query),  # each way in turn
    Ill("click_without_key", Counter(skipped=1), _click_without_key),
    Ill("click_twice_same_file", _TWICE, _click_twice(False)),
    Ill("click_twice_other_file", _TWICE, _click_twice(True)),  # in two streams
    Ill("copies_apart", _JOINS, _copies_apart),  # one datacenter gets query and click seconds later
    Ill("query_twice", Counter(joined_total=1, primary=2), _query_twice),  # the first by time counts
)
ILL_BY_NAME: Mapping[str, Ill] = {ill.name: ill for ill in ILLS}


def plain_query(seed: int, index: int, per_second: float) -> Query:
    """The query of this index: one in each slot of 1 / `per_second` seconds."""
    chance = random.Random((seed << 42) | index)
    time_s = (index + chance.random()) / per_second
    return _query(f"q{seed}-{index:08d}", time_s, chance)


def plain_click(seed: int, index: int, per_second: float, queries: int, queries_per_second: float) -> Click:
    """The click of this index, on a query that came a log-normal delay earlier."""
    chance = random.Random((seed << 42) | (1 << 40) | index)
    time_s = (index + chance.random()) / per_second
    delay_s = CLICK_DELAY_MEDIAN_SECONDS * chance.lognormvariate(0, CLICK_DELAY_SIGMA)
    delay_s = min(max(delay_s, CLICK_DELAY_LEAST_SECONDS), CLICK_DELAY_MOST_SECONDS)
    if delay_s > time_s:  # nothing was searched before the start
        delay_s = chance.uniform(0, time_s)
    of = min(max(int((time_s - delay_s) * queries_per_second) - 1, 0), queries - 1)
    return _click(f"c{seed}-{index:08d}", f"q{seed}-{of:08d}", time_s, chance)


def story(ill: Ill, number: int, seed: int, at_s: float, late_seconds: float, datacenters: int) -> Story:
    """Instance `number` of an ill, about `at_s`. Its events carry the ill's name in their ids."""
    assert ill.tell is not None, f"{ill.name} is an ill of the files and tells no story"
    place = (ILLS.index(ill) << 20) | number
    chance = random.Random((seed << 42) | (1 << 41) | place)
    query = _query(f"q{seed}-{ill.name}-{number:04d}", at_s, chance)
    delay_s = chance.uniform(*STORY_GAP_SECONDS)
    click = _click(f"c{seed}-{ill.name}-{number:04d}", query.id, at_s + delay_s, chance)
    lines = ill.tell(Cast(query, click, place, number, late_seconds, datacenters, chance))
    return Story(lines, {click.id: query} if ill.outcome["joined_total"] else {})


def _query(id: str, time_s: float, chance: random.Random) -> Query:
    text = " ".join(chance.choices(WORDS, k=chance.randint(1, 4)))
    return Query(id, time_s, f"user-{chance.randrange(10_000)}", text)


def _click(id: str, query_id: str, time_s: float, chance: random.Random) -> Click:
    position = chance.randint(1, 10)
    return Click(id, query_id, time_s, position, f"https://shop.example/item/{chance.randrange(100_000)}")
