"""Generated traffic: queries (primary) and clicks (foreign) of several datacenters, and what comes of them.

`write_all` writes a traffic at once, the same bytes each time; `live_traffic` writes the same events as time
goes by. It uses no engine code, whose mistakes must not shape what is expected.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Literal, Self

from examples.demo.log_writer import (
    CLICK_COLUMNS,
    QUERY_COLUMNS,
    TIME_UNITS,
    LogStream,
    ObjectStream,
    Stream,
    WholeFileStream,
    generation,
    header,
    render,
    stream_of,
)
from examples.demo.stories import (
    ILL_BY_NAME,
    ILLS,
    WRITE_DELAY_SECONDS,
    Click,
    Line,
    Query,
    Story,
    plain_click,
    plain_query,
    story,
)
from photon.pipeline.location import Location
from photon.process.clock import MICROSECONDS, Clock, SystemClock

START_US = 1_767_607_200 * MICROSECONDS  # 2026-01-05 10:00 UTC

# Counts as `photon join --complete --json` prints them: by datacenter, then by class.
Counts = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ExpectedOutcomes:
    """The outcomes of a traffic once all of it was read and declared complete.

    `foreign`, `unjoinable`, `dead_letters` and `skipped` hold in each datacenter, `joined_total` for all
    datacenters together. `duplicates` are the further records of joined events: each is counted as a
    duplicate in the datacenter that joined its event, and as joined elsewhere in the others.
    """

    datacenters: tuple[str, ...]
    joined: Mapping[str, Query]  # a click's id leads to the query whose values its row must have
    joined_total: int = 0
    unjoinable: int = 0
    dead_letters: int = 0
    skipped: int = 0
    duplicates: int = 0
    primary: int = 0  # good primary records of each datacenter, repeated ones included
    primary_dead_letters: int = 0

    @property
    def foreign(self) -> int:
        """All foreign records of each datacenter."""
        return self.joined_total + self.duplicates + self.unjoinable + self.dead_letters + self.skipped

    def disagreements(self, counts: Counts) -> list[str]:
        """Where the counts of all datacenters differ from this, in words; empty if they agree."""
        wrong = [f"no counts of datacenter {name}" for name in self.datacenters if name not in counts]

        def check(what: str, found: int, expected: int) -> None:
            if found != expected:
                wrong.append(f"{what} is {found}, expected {expected}")

        for name, found in counts.items():
            for key in ("foreign", "unjoinable", "dead_letters", "skipped"):
                check(f"{name}: {key}", found.get(key, 0), getattr(self, key))
            for key in ("pending", "filtered", "too_old"):
                check(f"{name}: {key}", found.get(key, 0), 0)
            ours = found["joined"] + found["joined_elsewhere"] + found["duplicates"]
            expected = self.joined_total + self.duplicates
            check(f"{name}: joined + joined_elsewhere + duplicates", ours, expected)
            if found["duplicates"] > self.duplicates:
                most = f"expected at most {self.duplicates}"
                wrong.append(f"{name}: duplicates is {found['duplicates']}, {most}")
        joined = sum(found["joined"] for found in counts.values())
        check("joined by all datacenters", joined, self.joined_total)
        return wrong


@dataclass(frozen=True, slots=True)
class Delivery:
    """A line on its way to one datacenter. Deliveries come in the order of `at_s`."""

    at_s: float
    serial: int  # number of the line: copies of one line share it
    datacenter: int  # an index
    line: Line


@dataclass(frozen=True)
class Traffic:
    """Queries and clicks at steady rates for some time, and each ill as often as `ills` says.

    Rates are in events per second, over all files of a side. Ills come on top of the rates, except
    `file_rollover` and `rename_rotation`, which say how often streams begin a new file. What is late is
    written after `duration_seconds`. `late_seconds`: the least lateness of a late query.
    `whole_file_seconds`: logs in folders are no files that grow, but one more whole file every so often.
    """

    seed: int
    datacenters: tuple[str, ...] = ("east", "west")
    primary_per_second: float = 100.0
    foreign_per_second: float = 10.0
    duration_seconds: float = 60.0
    ills: Mapping[str, int] = field(default_factory=dict)
    primary_format: Literal["jsonl", "csv", "tsv"] = "jsonl"
    foreign_format: Literal["jsonl", "csv", "tsv"] = "jsonl"
    streams: int = 3
    late_seconds: float = 120.0
    start_us: int = START_US
    whole_file_seconds: float | None = None

    def __post_init__(self) -> None:
        unknown = set(self.ills) - set(ILL_BY_NAME)
        if unknown:
            raise ValueError(f"no ill is called {min(unknown)!r}; there are: {', '.join(ILL_BY_NAME)}")
        if min(self.primary_per_second, self.foreign_per_second, self.duration_seconds) <= 0:
            raise ValueError("primary_per_second, foreign_per_second and duration_seconds must be above 0")
        if self.streams < 2:
            raise ValueError(
                f"streams must be at least 2 (a click is logged in two of them), got {self.streams}"
            )
        if self.queries == 0:
            raise ValueError("no query falls into duration_seconds; raise it or primary_per_second")

    @property
    def queries(self) -> int:
        """How many queries there are besides those of ills."""
        return round(self.primary_per_second * self.duration_seconds)

    @property
    def clicks(self) -> int:
        return round(self.foreign_per_second * self.duration_seconds)

    def expected_outcomes(self) -> ExpectedOutcomes:
        """The outcomes that this traffic must have. Holds the values of every joined event in memory."""
        counts = Counter(joined_total=self.clicks, primary=self.queries)
        for name, times in self.ills.items():
            for outcome, count in ILL_BY_NAME[name].outcome.items():
                counts[outcome] += times * count
        joined = {}
        for index in range(self.clicks):
            click = self._click(index)
            joined[click.id] = self._query(int(str(click.query_id).rpartition("-")[2]))
        for told in self._stories():
            joined.update(told.joined)
        return ExpectedOutcomes(self.datacenters, joined, **counts)

    def lines(self) -> Iterator[Line]:
        """Every line of one copy of the logs, in the order of writing; memory holds those of ills only."""
        of_ills = sorted((line for told in self._stories() for line in told.lines), key=_when)
        queries, clicks = map(self._query, range(self.queries)), map(self._click, range(self.clicks))
        return heapq.merge(_lines_of(queries), _lines_of(clicks), of_ills, key=_when)

    def deliveries(self) -> Iterator[Delivery]:
        """Every line to every datacenter, in the order of writing."""
        lagging: list[tuple[float, int, int, Line]] = []
        none = (0.0,) * len(self.datacenters)
        for serial, line in enumerate(self.lines()):
            while lagging and lagging[0][0] <= line.at_s:
                yield Delivery(*heapq.heappop(lagging))
            for datacenter, lag_s in enumerate(line.lags_s or none):
                heapq.heappush(lagging, (line.at_s + lag_s, serial, datacenter, line))
        while lagging:
            yield Delivery(*heapq.heappop(lagging))

    def render_line(self, line: Line, start_us: int, now_us: int | None = None) -> bytes:
        """The bytes of a line, the same in every datacenter. `now_us`: when it is written; None: in time."""
        at_s = line.at_s if line.logged_s is None else line.logged_s
        planned_us = start_us + round(at_s * MICROSECONDS)
        logged_at_us = planned_us if now_us is None or line.logged_s is not None else now_us
        format = self.primary_format if isinstance(line.event, Query) else self.foreign_format
        return render(line, format, start_us, logged_at_us)

    def write_all(self, folder: Path, logs: Mapping[str, Location] | None = None) -> None:
        """Write the whole traffic now, below `folder`/logs, as if it had been logged at its own times.

        `logs`: where datacenters have theirs instead. FileExistsError if there are logs already: what is
        expected would not hold for both.
        """
        with TrafficWriter(self, folder, logs) as writer:
            for delivery in self.deliveries():
                line = delivery.line
                writer.put(delivery, self.render_line(line, self.start_us))

    def pipeline_text(
        self, name: str = "search_clicks", more: str = "", places: Mapping[str, str] | None = None
    ) -> str:
        """A pipeline file for this traffic; `more` is added at its end (whole top-level keys).

        `places`: keys of datacenters by their names, such as `lake: s3://bucket/east`.
        """
        keys = {name: (places or {}).get(name, "") for name in self.datacenters}
        keys = {n: its if "logs:" in its else f"logs: logs/{n}, {its}".strip(", ") for n, its in keys.items()}
        datacenters = "\n".join(f"  {name}: {{{its}}}" for name, its in keys.items())
        return _PIPELINE.format(
            name=name, datacenters=datacenters, primary=self.primary_format, foreign=self.foreign_format,
            primary_unit=TIME_UNITS[self.primary_format], foreign_unit=TIME_UNITS[self.foreign_format],
        ) + more  # fmt: skip

    def write_pipeline(
        self,
        folder: Path,
        name: str = "search_clicks",
        more: str = "",
        places: Mapping[str, str] | None = None,
    ) -> Path:
        """Write `pipeline_text` to `folder`/pipeline.yaml; its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "pipeline.yaml"
        path.write_text(self.pipeline_text(name, more, places))
        return path

    def _query(self, index: int) -> Query:
        return plain_query(self.seed, index, self.primary_per_second)

    def _click(self, index: int) -> Click:
        return plain_click(self.seed, index, self.foreign_per_second, self.queries, self.primary_per_second)

    def _stories(self) -> Iterator[Story]:
        """The ills' stories, the ills in turn, evenly over the duration."""
        told = [(number, ill) for ill in ILLS if ill.tell for number in range(self.ills.get(ill.name, 0))]
        told.sort(key=lambda pair: pair[0])  # stable: by number, then in the order of ILLS
        for position, (number, ill) in enumerate(told):
            at_s = self.duration_seconds * (position + 0.5) / len(told)
            yield story(ill, number, self.seed, at_s, self.late_seconds, len(self.datacenters))


class TrafficWriter:
    """The growing log files of a traffic in all datacenters, below `folder`/logs/DATACENTER, or in buckets.

    Even streams roll over as often as the ill `file_rollover` says, odd ones rotate by rename.
    """

    def __init__(
        self,
        traffic: Traffic,
        folder: Path,
        logs: Mapping[str, Location] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._traffic = traffic
        clock = clock or SystemClock()
        self._changes = [traffic.ills.get(ill, 0) for ill in ("file_rollover", "rename_rotation")]
        self._streams: dict[tuple[int, type[Query | Click], int], Stream] = {}
        for kind, side, columns, format in (
            (Query, "queries", QUERY_COLUMNS, traffic.primary_format),
            (Click, "clicks", CLICK_COLUMNS, traffic.foreign_format),
        ):
            header_line = header(columns, format)
            for datacenter, name in enumerate(traffic.datacenters):
                place = (logs or {}).get(name, folder / "logs" / name) / side
                for stream in range(traffic.streams):
                    file = f"{side}-{stream}.{format}"
                    self._streams[datacenter, kind, stream] = (
                        ObjectStream(place, file, header_line, clock)
                        if not isinstance(place, Path)
                        else LogStream(place / file, header_line, stream % 2 == 1)
                        if (seconds := traffic.whole_file_seconds) is None
                        else WholeFileStream(place, file, header_line, clock, seconds)
                    )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in self._streams.values():
            stream.close()

    def put(self, delivery: Delivery, data: bytes) -> None:
        """Append the bytes of a line, as `render_line` made them, to the right file of its datacenter."""
        line, traffic = delivery.line, self._traffic
        stream = stream_of(traffic.datacenters[delivery.datacenter], line.place, traffic.streams)
        stream = (stream + line.next_stream) % traffic.streams
        number = generation(delivery.at_s, self._changes[stream % 2], traffic.duration_seconds)
        self._streams[delivery.datacenter, type(line.event), stream].append(number, data)

    def flush(self) -> None:
        """Make all lines visible, queries first: a click is seldom seen before its query."""
        for stream in self._streams.values():
            stream.flush()


_when = attrgetter("at_s")


def _lines_of(events: Iterable[Query | Click]) -> Iterator[Line]:
    """A line of each event in the order of writing: none is written more than WRITE_DELAY_SECONDS late."""
    waiting: list[tuple[float, int, Line]] = []
    for index, event in enumerate(events):
        while waiting and waiting[0][0] <= event.time_s:
            yield heapq.heappop(waiting)[2]
        at_s = event.time_s + WRITE_DELAY_SECONDS * ((index * 7919) % 1000) / 1000  # a fixed scatter
        heapq.heappush(waiting, (at_s, index, Line(at_s, event, index)))
    while waiting:
        yield heapq.heappop(waiting)[2]


_PIPELINE = """\
name: {name}
datacenters:
{datacenters}
primary:
  files: "queries/**/*.{primary}"
  format: {primary}
  id: query_id
  time: time
  time_unit: {primary_unit}
foreign:
  files: "clicks/**/*.{foreign}"
  format: {foreign}
  id: click_id
  key: query_id
  time: time
  time_unit: {foreign_unit}
"""
