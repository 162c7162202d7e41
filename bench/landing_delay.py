"""How soon a message is a line that can be read, and how many messages a core lands in catch-up.

A producer sends at a steady rate and notes when the broker acknowledged each message. Another process reads
the landed files as they grow. The broker, the producer and the reader take processors too.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from infra.servers.kafka import KafkaBroker

PARTITIONS, VALUE_BYTES, AT_ONCE = 4, 500, 20
READ_EVERY_SECONDS, PATIENCE_SECONDS = 0.005, 120.0
WARM_UP_SECONDS = 20.0  # a new broker acknowledges nothing for seconds, and then all at once
LAND = (sys.executable, "-m", "photon.cli.main", "land")
PIPELINE = """\
name: landed
datacenters: {{east: {{logs: logs, land: [{{kafka: {{servers: "{url}", topic: {topic}}}, into: clicks}}]}}}}
primary: {{files: "queries/*/*.jsonl", format: jsonl, id: query_id, time: at}}
foreign: {{files: "clicks/*/*.jsonl", format: jsonl, id: click_id, key: query_id, time: at}}
"""


def measure_landing(
    folder: Path, seconds: float, rate: int, messages: int, progress: Callable[[str], None]
) -> dict[str, float]:
    """Delay at `rate` messages a second, then catch-up over so many; the figures by name."""
    with KafkaBroker(folder / "kafka") as broker:
        progress(f"live: {rate:,} messages/s for {seconds:g} s")
        live = _measure_live(_pipeline(folder / "live", broker.url, "live"), broker.url, seconds, rate)
        progress(f"catch-up over {messages:,} messages")
        return live | _measure_catch_up(_pipeline(folder / "late", broker.url, "late"), broker.url, messages)


def _pipeline(folder: Path, url: str, topic: str) -> Path:
    folder.mkdir()
    admin = AdminClient({"bootstrap.servers": url})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(PATIENCE_SECONDS)
    (folder / "pipeline.yaml").write_text(PIPELINE.format(url=url, topic=topic))
    return folder / "pipeline.yaml"


def _value(number: int) -> bytes:
    return (b'{"click_id": "%012d", "pad": "' % number).ljust(VALUE_BYTES - 2, b"x") + b'"}'


def _send(topic: str, url: str, count: int, rate: float) -> array[float]:
    """Send so many, evenly where there is a rate; when each of them was acknowledged."""
    producer = Producer({"bootstrap.servers": url, "linger.ms": 5, "queue.buffering.max.messages": 10**7})
    acknowledged, is_over = array("d", bytes(8 * count)), threading.Event()

    def poll() -> None:  # on a thread of its own: an acknowledgement is noted when it comes
        while not is_over.is_set():
            producer.poll(0.005)

    polling = threading.Thread(target=poll)
    polling.start()
    began = time.monotonic()
    for number in range(count):
        if rate and number % AT_ONCE == 0:
            time.sleep(max(0.0, began + number / rate - time.monotonic()))

        def told(*_: object, number: int = number) -> None:
            acknowledged[number] = time.time()

        producer.produce(topic, _value(number), partition=number % PARTITIONS, on_delivery=told)
    producer.flush(PATIENCE_SECONDS)
    is_over.set()
    polling.join()
    return acknowledged


def _read(folder: Path, count: int, is_over: Event, found: Any) -> None:
    """Read files as they grow until all lines are there; when each could be read."""
    seen, offsets, left = array("d", bytes(8 * count)), dict[Path, int](), count
    while left and not is_over.is_set():
        time.sleep(READ_EVERY_SECONDS)
        for file in folder.glob("*/*.jsonl"):
            with file.open("rb") as opened:
                opened.seek(offsets.get(file, 0))
                whole, end, _ = opened.read().rpartition(b"\n")
            now = time.time()
            offsets[file] = offsets.get(file, 0) + len(whole) + len(end)
            for line in whole.split(b"\n") if end else ():
                seen[int(line[14:26])] = now
                left -= 1
    found.send_bytes(seen.tobytes())


@contextmanager
def _landing(file: Path, *options: str) -> Iterator[psutil.Popen]:
    process = psutil.Popen([*LAND, str(file), *options], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _measure_live(file: Path, url: str, seconds: float, rate: int) -> dict[str, float]:
    count, is_over = round(rate * (WARM_UP_SECONDS + seconds)), multiprocessing.Event()
    ours, theirs = multiprocessing.Pipe()
    arguments = (file.parent / "logs" / "clicks", count, is_over, theirs)
    reader = multiprocessing.Process(target=_read, args=arguments)
    reader.start()
    with _landing(file) as process:
        while not (file.parent / "logs" / "clicks" / ".photon" / "land.json").exists():
            time.sleep(0.1)
        before, began = process.cpu_times(), time.monotonic()
        acknowledged = _send("live", url, count, rate)
        if not ours.poll(PATIENCE_SECONDS):
            is_over.set()
        seen = array("d", ours.recv_bytes())
        after, took = process.cpu_times(), time.monotonic() - began
    reader.join()
    first = round(rate * WARM_UP_SECONDS)
    pairs = list(zip(seen, acknowledged, strict=True))[first:]
    delays = sorted(there - told for there, told in pairs if there and told)
    cores = (after.user + after.system - before.user - before.system) / took
    found = {f"delay p{share}, s": delays[len(delays) * share // 100] for share in (50, 90, 99)}
    return {**found, "not read": len(pairs) - len(delays), "cores": cores, "messages/s sent": count / took}


def _measure_catch_up(file: Path, url: str, messages: int) -> dict[str, float]:
    """Land all at once, less what a process takes that finds nothing to land."""
    _send("late", url, messages, 0)
    whole, idle = (_cpu_seconds(file) for _ in range(2))
    return {"catch-up, messages per core-second": messages / (whole - idle)}


def _cpu_seconds(file: Path) -> float:
    before: Mapping[str, float] = psutil.Process().cpu_times()._asdict()
    subprocess.run([*LAND, str(file), "--complete"], stderr=subprocess.DEVNULL, check=True)
    after = psutil.Process().cpu_times()._asdict()
    return sum(float(after[name] - before[name]) for name in ("children_user", "children_system"))
