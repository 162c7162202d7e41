"""Whether the datacenters' copies of the logs have the same events. Pure.

Copies may be split into files, ordered and named otherwise. So events are compared by their ids, hour by hour
of event time: first by count and a hash that does not depend on the order; where those differ, id by id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from photon.logs.files import Side
from photon.process.clock import MICROSECONDS, in_utc
from photon.process.readable import counted
from photon.verification.report import Example, Finding, FindingKind

HOUR_US = 3_600 * MICROSECONDS
COMPARED_DAYS = 28  # before the latest hour that has events; older hours are not looked at again
SIDES: tuple[Side, ...] = ("primary", "foreign")
KIND: FindingKind = "log_copy_short"

Hour = tuple[Side, int]  # one log, and when an hour of event time begins


@dataclass(frozen=True, slots=True)
class FileDigest:
    """The events of one hour in a part of one file."""

    side: Side
    file: int
    hour_us: int
    events: int
    # Sums of the two halves of the hashes of their ids: they don't depend on the order, and add up.
    low: int
    high: int
    first_offset: int
    last_offset: int

    @property
    def sums(self) -> tuple[int, int, int]:
        return self.events, self.low, self.high


@dataclass(frozen=True)
class CopyKnowledge:
    """The knowledge of one datacenter's copy of the logs."""

    datacenter: str
    read_until_us: int = 0  # all that came into its logs before was read, and is in the digests
    reached: Mapping[int, int] = field(default_factory=dict)  # up to which byte each file is in the digests
    digests: Sequence[FileDigest] = ()
    # Before this time logs went that nobody has digested.
    unknown_until_us: Mapping[Side, int] = field(default_factory=dict)
    readings: int = 0  # that are stored
    digested_us: Mapping[int, int] = field(default_factory=dict)  # when each file was digested last

    def by_hour(self) -> dict[Hour, tuple[int, int, int]]:
        """The sums of each hour."""
        found: dict[Hour, tuple[int, int, int]] = defaultdict(lambda: (0, 0, 0))
        for each in self.digests:
            events, low, high = found[each.side, each.hour_us]
            found[each.side, each.hour_us] = (events + each.events, low + each.low, high + each.high)
        return found

    def of_hour(self, hour: Hour) -> list[FileDigest]:
        return [each for each in self.digests if (each.side, each.hour_us) == hour]

    def has_closed(self, hour: Hour, delay_us: int) -> bool:
        """Whether it has all that it will have of an hour, as far as anybody can tell."""
        side, hour_us = hour
        is_known = hour_us >= self.unknown_until_us.get(side, 0)
        return is_known and hour_us + HOUR_US + delay_us <= self.read_until_us


def compared_since_us(hours_us: Iterable[int], now_us: int) -> int:
    """Where the hours begin that are compared; a wild time in the future does not count."""
    latest_us = max((hour_us for hour_us in hours_us if hour_us <= now_us), default=0)
    return latest_us - COMPARED_DAYS * 24 * HOUR_US


@dataclass(frozen=True)
class Suspicion:
    """An hour in which copies differ in number or hash: only their ids tell what it means."""

    hour: Hour
    datacenters: tuple[str, ...]  # that have closed it
    fingerprint: str  # stays the same as long as nothing is new in what they have


def suspicions(copies: Collection[CopyKnowledge], delay_us: int, now_us: int) -> Iterator[Suspicion]:
    """The hours in which copies differ, of those that at least two datacenters have closed."""
    sums = {copy.datacenter: copy.by_hour() for copy in copies}
    hours = sorted({hour for of_copy in sums.values() for hour in of_copy})
    since_us = compared_since_us((hour_us for _, hour_us in hours), now_us)
    for hour in hours:
        if hour[1] < since_us:
            continue
        closed = sorted(copy.datacenter for copy in copies if copy.has_closed(hour, delay_us))
        found = {name: sums[name].get(hour, (0, 0, 0)) for name in closed}
        if len(set(found.values())) > 1:
            text = ";".join(f"{name}:{':'.join(map(str, each))}" for name, each in found.items())
            yield Suspicion(hour, tuple(closed), text)


@dataclass(frozen=True)
class Lack:
    """Events of one file of `full` that are nowhere in the copy of `short`."""

    short: str  # the datacenter that has to act
    full: str
    side: Side
    hour_us: int
    path: str  # in `full`
    events: int
    first_offset: int
    last_offset: int
    first_us: int  # first of these events' times
    last_us: int
    first_event: str
    last_event: str
    known_us: int | None = None  # when a comparison that is kept told it first; None: none has

    def __add__(self, other: Lack) -> Lack:
        first, last = sorted((self, other), key=lambda each: each.first_offset)
        furthest = max(first, last, key=lambda each: each.last_offset)
        return replace(
            first,
            events=self.events + other.events,
            last_offset=furthest.last_offset,
            last_event=furthest.last_event,
            first_us=min(self.first_us, other.first_us),
            last_us=max(self.last_us, other.last_us),
            known_us=min((us for us in (self.known_us, other.known_us) if us is not None), default=None),
        )


def by_file(lacks: Iterable[Lack]) -> list[Lack]:
    """The lacking events of each file, over all hours; the most first."""

    def file(lack: Lack) -> tuple[str, str, str, str]:
        return lack.short, lack.full, lack.side, lack.path

    together: list[Lack] = []
    for _, of_file in groupby(sorted(lacks, key=file), file):
        total, *others = of_file
        for each in others:
            total += each
        together.append(total)
    return sorted(together, key=lambda lack: -lack.events)


def short_copy(lacks: Sequence[Lack], own_sizes: Mapping[str, int], most: int) -> Finding | None:
    """The finding of the datacenter whose copy lacks these events; None if there are none.

    `own_sizes`: of its own files, by path, in bytes.
    """
    if not lacks:
        return None
    files = sorted(by_file(lacks), key=lambda lack: lack.known_us is not None)  # news first
    examples = [
        Example(lack.first_event, _where(lack), _detail(lack, own_sizes), lack.known_us)
        for lack in files[:most]
    ]
    new = sum(lack.known_us is None for lack in files)
    return Finding(KIND, len(files), tuple(examples), new=new, acting={files[0].short: len(files)})


def _where(lack: Lack) -> str:
    return f"{lack.side} log {lack.path} of {lack.full}, bytes {lack.first_offset} to {lack.last_offset}"


def _detail(lack: Lack, own_sizes: Mapping[str, int]) -> str:
    size = own_sizes.get(lack.path)
    # The same name need not be the same file: copies may be split otherwise.
    own = "has no file of this name" if size is None else f"has a file of this name that ends at byte {size}"
    times = f"{in_utc(lack.first_us, 'seconds')} to {in_utc(lack.last_us, 'seconds')}"
    events = f"{counted(lack.events, 'event')} of {times}, the last one {lack.last_event}"
    return f"{events}; the copy of {lack.short} {own}"
