"""How soon a look finds a new object, and what it asks for: with notices of the store, and without.

    python bench/object_notices.py [OBJECTS]    on a MinIO, which is started and ended

New objects have names that sort by time, or others, beside so many that are known. Looks follow each other as
those of a dispatcher that has nothing else to do.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import BinaryIO

from bench.minio_server import CREDENTIALS, minio_server
from photon.clock import SystemClock
from photon.dispatcher.dispatcher import MOST_REST_SECONDS, REST_PER_LOOK
from photon.logs.folders import log_folder
from photon.logs.news import News
from photon.logs.on_s3.listing import ListedWatch
from photon.logs.on_s3.objects import found_object
from photon.pipeline.location import S3Folder
from photon.pipeline.sections import Tailing
from photon.storage.s3 import S3Store, StoredObject

PUT_EVERY_SECONDS = 0.25
NEW_OBJECTS = 40
NAMES: dict[str, Callable[[], str]] = {
    "names that sort by time": lambda: f"host-1/{time.time_ns()}.jsonl",
    "names without order": lambda: f"host-1/{uuid.uuid4()}.jsonl",
}


class CountedStore(S3Store):
    """Counts what it is asked."""

    asked: Counter[str]

    def objects(self, below: str = "", after: str = "") -> Iterator[StoredObject]:
        self.asked["LIST"] += 1
        return super().objects(below, after)

    def object(self, name: str) -> StoredObject | None:
        self.asked["HEAD"] += 1
        return super().object(name)


def put(store: S3Store, name: str) -> None:
    """Put an object of one line."""

    def write(sink: BinaryIO) -> None:
        sink.write(b"{}\n")

    store.put(name, write)


def main(objects: int) -> None:
    """Measure each way and print."""
    os.environ |= CREDENTIALS
    with tempfile.TemporaryDirectory() as name, minio_server(Path(name), ["logs"]) as server:
        for said, new_name in NAMES.items():
            folder = S3Folder("logs", said.replace(" ", "-"), server.url)
            names = (f"host-{number % 8}/{number:08}.jsonl" for number in range(objects))
            with ThreadPoolExecutor(16) as threads:
                list(threads.map(partial(put, S3Store(folder)), names))
            for is_told in (False, True):
                delays, asked, seconds = _measure(folder, new_name, is_told)
                requests = ", ".join(
                    f"{count / seconds:.1f} {kind}/s" for kind, count in sorted(asked.items())
                )
                print(
                    f"{objects:,} objects, {said}, {'with' if is_told else 'without'} notices: found after "
                    f"{statistics.median(delays):.3f} s (median), {max(delays):.3f} s at most; {requests}"
                )


def _measure(
    folder: S3Folder, new_name: Callable[[], str], is_told: bool
) -> tuple[list[float], Counter[str], float]:
    """Seconds from put to found of each new object; requests, and the seconds in which they were made."""
    store, clock = CountedStore(folder), SystemClock()
    store.asked = Counter()
    watch = ListedWatch(store, found_object, "**/*.jsonl")
    with log_folder(folder).listening() if is_told else nullcontext(News()) as news:
        put_at: dict[str, float] = {}
        found_at: dict[str, float] = {}
        watch.scan()
        while is_told and news.take() is None:
            time.sleep(0.1)
        writer = threading.Thread(target=_write, args=(S3Store(folder), new_name, put_at))
        writer.start()
        store.asked.clear()
        began = time.perf_counter()
        while writer.is_alive() or len(found_at) < NEW_OBJECTS:
            look_began = time.perf_counter()
            seen = watch.scan(told=news.take())
            now = time.perf_counter()
            for file in seen.files if len(found_at) < len(put_at) else ():
                if file.path in put_at:
                    found_at.setdefault(file.path, now)
            rest_seconds = min(REST_PER_LOOK * (now - look_began), MOST_REST_SECONDS)
            news.rest(clock, max(Tailing().poll_interval.total_seconds(), rest_seconds))
        seconds = time.perf_counter() - began
    return [found_at[path] - put_at[path] for path in put_at], store.asked, seconds


def _write(store: S3Store, new_name: Callable[[], str], put_at: dict[str, float]) -> None:
    for _ in range(NEW_OBJECTS):
        name = new_name()
        put(store, name)
        put_at[name] = time.perf_counter()
        time.sleep(PUT_EVERY_SECONDS)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)
