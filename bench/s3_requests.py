"""Counts what one datacenter asks of S3: for a commit at one batch a second, and in an hour without news.

Logs and lake lie on a MinIO behind a proxy that counts. It tells of no new objects, as AWS does not. What the
measurement itself writes goes past it. List prices of S3 standard make USD of it.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from bench.live_measurement import PHOTON_JOIN, MeasurementFailed
from infra.servers.minio import LOGS, places_on_minio
from infra.servers.process import end_process, start_process
from photon.pipeline.file import load_pipeline
from photon.pipeline.location import S3Folder
from photon.process.clock import SystemClock
from photon.registry.opening import close_registries, init_registry
from photon.storage.s3 import S3Store
from photon.storage.store import content
from photon.storage.tables import OutputTable
from tests.faulty_s3 import Fault, FaultyS3

# List prices of S3 standard in USD for 1,000 requests, us-east-1. Others, DELETE, are free.
PRICES = {"PUT": 0.005, "LIST": 0.005, "GET": 0.0004, "HEAD": 0.0004}
DAY_SECONDS, HOUR_SECONDS = 86_400, 3_600
OBJECT_EVENTS = 10  # clicks of an object; each has a query of its own
START_SECONDS, SETTLE_SECONDS = 900.0, 60.0  # until all is joined, and until nothing of that is looked after
PUTS_AT_ONCE = 8
FILE = """
name: requests
datacenters: {{here: {{{place}}}}}
primary: {{files: "queries/*.jsonl", format: jsonl, id: id, time: time, time_unit: ms}}
foreign: {{files: "clicks/*.jsonl", format: jsonl, id: id, key: query, time: time, time_unit: ms}}
tailing: {{poll_interval: 1s}}
"""
_KINDS = {
    "an entry of a table's log": r"_delta_log/\d+\.json",
    "the rest of a table's log": r"_delta_log(/|$)|_archived_log",
    "candidate rows": r"joined_events/.*batch-",
    "tables": r"\.parquet$",
    "releases": r"(^|/)releases(/|$)",
    "index and waiting records": r"_photon(/|$)",
}
Requests = Counter[tuple[str, str]]  # by method and key


class CountingS3(FaultyS3):
    """The store at `to_url`, at a URL of its own: each request is counted, and nobody is told of objects."""

    def __init__(self, to_url: str) -> None:
        self.requests: Requests = Counter()
        super().__init__(to_url)

    def next_fault(self, method: str, path: str) -> Fault | None:
        """Count a request, beside what the faulty store does with it."""
        if "events=" in path:
            return "archived"  # refused
        self.requests[asked(method, path)] += 1
        return super().next_fault(method, path)


def asked(method: str, target: str) -> tuple[str, str]:
    """The method of a request as the bill knows it, and the key with its bucket that it is about."""
    url = urlsplit(target)
    query = parse_qs(url.query, keep_blank_values=True)
    if "list-type" in query:
        return "LIST", f"{url.path.strip('/')}/{query.get('prefix', [''])[0]}"
    return ("DELETE" if "delete" in query else method), unquote(url.path).strip("/")


def kind_of(key: str) -> str:
    """The kind of object at a key, for people."""
    if key.startswith(f"{LOGS}/"):
        return "logs"
    return next((kind for kind, pattern in _KINDS.items() if re.search(pattern, key)), "other documents")


def usd(requests: Requests) -> float:
    """The price of these requests."""
    return sum(PRICES.get(method, 0.0) * count / 1_000 for (method, _), count in requests.items())


@dataclass
class Bill:
    """The requests of some commits, or of some time without any."""

    requests: Requests
    seconds: float
    commits: int = 0

    def as_dict(self) -> dict[str, float]:
        """The numbers for people and JSON: for each commit, or for an hour."""
        of = self.commits or self.seconds / HOUR_SECONDS
        found = Counter[str](requests=self.requests.total())
        for (method, key), count in self.requests.items():
            found.update({method: count, f"{method} {kind_of(key)}": count})
        each = {name: round(count / of, 2) for name, count in found.most_common()}
        return {"usd_a_day": round(usd(self.requests) * DAY_SECONDS / self.seconds, 2), **each}


class MeasuredPipeline:
    """A pipeline on a store that counts. What is written and read here goes past the proxy."""

    def __init__(self, file: Path, proxy: CountingS3) -> None:
        place = load_pipeline(file).datacenters["here"]
        logs, lake = (
            replace(folder, endpoint_url=f"http://127.0.0.1:{proxy.to_port}")
            for folder in (place.logs, place.lake)
            if isinstance(folder, S3Folder)
        )
        self._proxy, self._logs, self._table = proxy, S3Store(logs), OutputTable(lake, "joined_events")
        self._objects = 0  # of each log

    def write(self, objects: int = 1, events: int = OBJECT_EVENTS) -> None:
        """Put so many objects into each log, in the order of their names."""
        first, self._objects = self._objects, self._objects + objects
        with ThreadPoolExecutor(PUTS_AT_ONCE) as threads:
            list(threads.map(lambda number: self._put(number, events), range(first, self._objects)))

    def _put(self, number: int, events: int) -> None:
        names, now_ms = [f"{number}-{n}" for n in range(events)], round(time.time() * 1_000)
        for log in ("queries", "clicks"):
            rows = ({"id": f"{log} {name}", "query": f"queries {name}", "time": now_ms} for name in names)
            lines = "".join(f"{json.dumps(row)}\n" for row in rows)
            self._logs.put(f"{log}/{number:09}.jsonl", content(lines.encode()))

    def await_rows(self, rows: int) -> None:
        """Wait until so many are joined. MeasurementFailed."""
        until_seconds = time.monotonic() + START_SECONDS
        while not self._table.exists() or self._table.load().count() < rows:
            if time.monotonic() > until_seconds:
                raise MeasurementFailed(f"{rows} rows are not there after {START_SECONDS:.0f} s")
            time.sleep(1)

    def count(self, seconds: float, each_second: Callable[[], None] = lambda: None) -> Bill:
        """Count the requests of so long."""
        before, began_seconds = self._table.load().version(), time.monotonic()
        self._proxy.requests.clear()
        for second in range(round(seconds)):
            each_second()
            time.sleep(max(0.0, began_seconds + second + 1 - time.monotonic()))
        requests = Counter(self._proxy.requests)
        return Bill(requests, time.monotonic() - began_seconds, self._table.load().version() - before)


@contextmanager
def joining(folder: Path, objects: int) -> Iterator[MeasuredPipeline]:
    """Join so many objects of each log, and go on; once they are joined it is given. MeasurementFailed."""
    with places_on_minio(folder / "minio", ("here",)) as places:
        url = str(re.findall(r"http://[^}]+", places["here"])[0])
        proxy, file = CountingS3(url), folder / "pipeline.yaml"
        file.write_text(FILE.format(place=places["here"].replace(url, proxy.url)))
        measured = MeasuredPipeline(file, proxy)
        measured.write(objects, events=1)
        init_registry(load_pipeline(file), SystemClock())
        close_registries()
        process = start_process([*PHOTON_JOIN, file, "--engine", "local"], folder / "join.log")
        try:
            measured.await_rows(objects)
            yield measured
        finally:
            end_process(process, START_SECONDS)
            proxy.refuse()


def measure_requests(
    folder: Path, objects: int, seconds: float, progress: Callable[[str], None]
) -> dict[str, dict[str, float]]:
    """Count the requests of a commit each second, and of an hour without news, with so many objects."""
    with joining(folder, objects // 2) as measured:
        progress(f"{objects} objects are joined; a batch a second for {seconds:.0f} s")
        commits = measured.count(seconds, measured.write)
        time.sleep(SETTLE_SECONDS)
        progress(f"nothing new for {seconds:.0f} s")
        return {"each commit": commits.as_dict(), "each idle hour": measured.count(seconds).as_dict()}
