"""Answers of the page's server as a test wants them: two datacenters with a kill, a hold and an outage."""

from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import photon

STATIC = Path(photon.__file__).parent / "page" / "static"
POLICY = "default-src 'self'"  # the server's own: no script or style within the page, nothing of others
SECOND_US = 1_000_000
NOW_US = 1_795_700_000 * SECOND_US
STEP_SECONDS = 10
POINTS = 360
KILLED_AT, BACK_AT = 90, 94  # of east, in points
HELD = range(220, 260)  # of west
OUTAGE = range(150, 163)  # of the registry: both wait

Json = dict[str, Any]


def verdict(promise: str, level: str, says: str, remedy: str = "", commands: Sequence[str] = ()) -> Json:
    return {
        "promise": promise,
        "level": level,
        "says": says,
        "remedy": remedy,
        "commands": list(commands),
    }


def datacenter(name: str, activity: str = "live", verdicts: list[Json] | None = None) -> Json:
    well = [
        verdict("works", "ok", f"{name} works"),
        verdict("lag", "ok", f"{name} is not behind its logs"),
        verdict("clock", "ok", "no event is ahead of this machine's clock"),
        verdict("dead_letters", "ok", "few of its records are dead letters"),
    ]
    return {
        "name": name,
        "activity": activity,
        "says": f"{name} is {activity}",
        "commands": [],
        "is_well": not verdicts,
        "unjudged": {},
        "verdicts": [*(verdicts or []), *well],
        "numbers": {
            "joined_per_second": 52.4,
            "p50_seconds": 0.253,
            "p90_seconds": 0.412,
            "p99_seconds": 1.38,
            "lag_seconds": 0.31,
            "complete_up_to_us": NOW_US - 4_200_000,
            "unread_bytes": 18_320,
            "waiting": 12,
            "registry_requests_per_second": 8.2,
            "registry_seconds_each": 0.0031,
        },
        "classes": CLASSES,
        "release": {"number": 218, "made_us": NOW_US - 31 * SECOND_US},
        "problem": "",
    }


CLASSES = {
    "joined": 1_203_444,
    "joined_elsewhere": 1_190_020,
    "duplicates": 23_988,
    "filtered": 0,
    "skipped": 612,
    "unjoinable": 7_260,
    "too_old": 0,
    "dead_letters": 841,
    "lost": 0,
    "pending": 12,
}


def now(*datacenters: Json, says: str = "All is well: east is live, west is live") -> Json:
    return {
        "pipeline": "search_clicks",
        "typed_file": "clicks/pipeline.yaml",
        "now_us": NOW_US,
        "says": says,
        "registry": {"says": "All endpoints answer", "verdicts": [verdict("endpoints", "ok", "they answer")]},
        "datacenters": list(datacenters) or [datacenter("east"), datacenter("west")],
    }


def curves(seed: int, gaps: range) -> Json:
    """An hour of a datacenter that nobody runs in `gaps`."""
    some = random.Random(seed)
    at_us = [NOW_US - (POINTS - 1 - n) * STEP_SECONDS * SECOND_US for n in range(POINTS)]

    def each(value: Any, in_outage: float | None = None) -> list[float | None]:
        return [None if n in gaps else in_outage if n in OUTAGE else value(n) for n in range(POINTS)]

    def rate(n: int) -> float:
        caught_up = 90.0 if gaps.stop <= n < gaps.stop + 8 else 0.0
        return 52 + 8 * math.sin(n / 40 + seed) + some.gauss(0, 2.5) + caught_up

    def delay(of: float) -> Any:
        return lambda n: of * (1 + 0.2 * math.sin(n / 25)) * some.lognormvariate(0, 0.12)

    def behind(of: float) -> list[float | None]:
        """A lag that grows while nothing is joined."""
        last, found = of, list[float | None]()
        for n in range(POINTS):
            grows = n in OUTAGE or n in gaps
            last = last + STEP_SECONDS if grows else max(of * some.lognormvariate(0, 0.2), last - 60)
            found.append(None if n in gaps else last)
        return found

    return {
        "at_us": at_us,
        "activity": ["live"] * POINTS,
        "joined_per_second": each(rate, 0.0),
        "p50_seconds": each(delay(0.25)),
        "p90_seconds": each(delay(0.42)),
        "p99_seconds": each(delay(1.2)),
        "lag_seconds": behind(0.3),
        "complete_lag_seconds": behind(4.0),
        "unread_bytes": [None if lag is None else 8_000 * lag for lag in behind(0.8)],
        "pending": each(lambda n: 12 + 4 * math.sin(n / 15 + seed)),
        "registry_requests_per_second": each(lambda n: 8 + some.gauss(0, 0.6), 0.4),
        "registry_seconds_each": each(delay(0.003)),
        "problem": "",
    }


def at(point: int) -> int:
    return NOW_US - (POINTS - 1 - point) * STEP_SECONDS * SECOND_US


def mark(datacenter: str | None, kind: str, point: int, says: str, until: int | None = None) -> Json:
    until_us = None if until is None else at(until)
    return {"datacenter": datacenter, "at_us": at(point), "until_us": until_us, "kind": kind, "says": says}


def strip(*states: tuple[float, str]) -> list[Json]:
    """A day; each state begins so many hours before its end."""
    begins = [NOW_US - round(hours * 3_600) * SECOND_US for hours, _ in states]
    ends = [*begins[1:], NOW_US]
    return [
        {"from_us": begin, "until_us": end, "state": state}
        for begin, end, (_, state) in zip(begins, ends, states, strict=True)
    ]


def budget(*bad: int) -> Json:
    """An error budget that allows 40 bad minutes. `bad` counts those until each step."""
    shares = [1 - used / 40 for used in bad]
    return {"share_left": shares[-1], "shares": shares, "says": f"{bad[-1]} bad minutes in 28 days, of 40"}


def history() -> Json:
    waits = "the registry does not answer"
    return {
        "from_us": at(0),
        "to_us": NOW_US,
        "step_seconds": STEP_SECONDS,
        "datacenters": {"east": curves(1, range(KILLED_AT, BACK_AT)), "west": curves(2, HELD)},
        "marks": [
            mark("east", "killed", KILLED_AT, "process 4711 ended without releasing its lease"),
            mark("east", "waits", OUTAGE.start, waits, OUTAGE.stop),
            mark("west", "waits", OUTAGE.start, waits, OUTAGE.stop),
            mark("west", "hold", HELD.start, "for a new disk"),
            mark("west", "resume", HELD.stop, "the disk is in"),
            mark("east", "rebuild", 310, "1 day: 4,410 rows made again"),
            *(mark("east", "release", n, f"release {n}") for n in range(0, POINTS, 30)),
        ],
        "strips": {
            "east": strip((24, "live"), (19, "behind"), (18.2, "live"), (0.75, "dead"), (0.72, "live")),
            "west": strip(
                (24, "unknown"), (21, "live"), (9, "waiting"), (8, "live"), (0.38, "on hold"), (0.27, "live")
            ),
        },
        "budget": {
            "east": budget(0, 10, 20, 20),
            "west": budget(0, 0, 12, 30),
        },
    }


def sample(line: str, event_id: str = "click-000981") -> Json:
    place = {"file": "clicks/2026-11-26.jsonl", "offset_bytes": 1_048_576}
    return {
        "datacenter": "east",
        "side": "foreign",
        "event_id": event_id,
        "at_us": at(300),
        "line": line,
        **place,
    }


def records() -> Json:
    hours = [NOW_US - n * 3_600 * SECOND_US for n in range(24, 0, -1)]
    spoilt = [0, 0, 3, 1, 0, 0, 0, 40, 220, 12, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 5]
    keys = [n % 5 * 3 for n in range(24)]
    return {
        "classes": {"east": CLASSES, "west": CLASSES | {"dead_letters": 2_200, "unjoinable": 70}},
        "dead_letters": {
            "step_seconds": 3_600,
            "at_us": hours,
            "reasons": [
                {
                    "reason": "the line is no JSON object",
                    "count": sum(spoilt),
                    "counts": spoilt,
                    "samples": [sample('{"click_id": "click-000981", "query_'), sample("garbage", "")],
                },
                {"reason": "no value of query_id", "count": sum(keys), "counts": keys, "samples": []},
            ],
            "what_to_do": "photon dead-letters clicks/pipeline.yaml names them, and mends them",
            "commands": ["photon dead-letters clicks/pipeline.yaml"],
        },
        "joined": [{"datacenter": "east", "event_id": "click-000990", "at_us": at(359)}],
        "conflicting": [
            {
                "datacenter": "west",
                "event_id": "click-000412",
                "at_us": at(10),
                "says": "its record in clicks/b.jsonl at 4,096 has another query_id than the one that joined",
            }
        ],
        "waiting": [
            {
                "datacenter": "east",
                "reason": "primary",
                "why": "for a primary event that is in no log yet",
                "count": 12,
                "oldest_first_seen_us": at(200),
                "next_due_us": NOW_US + 9 * SECOND_US,
                "samples": ["click-000871", "click-000872"],
            }
        ],
        "problems": [],
    }


def event(id: str = "click-000981") -> Json:
    def moment(seconds: float | None, kind: str, says: str) -> Json:
        return {
            "at_us": None if seconds is None else at(0) + round(seconds * 1e6),
            "kind": kind,
            "says": says,
        }

    return {
        "id": id,
        "says": "Joined by datacenter east in batch 412 of epoch 3f2a, from clicks/a.jsonl at 8,192.",
        "what_to_do": "",
        "commands": [],
        "lanes": [
            {
                "name": "east",
                "moments": [
                    moment(0, "logged", "clicks/a.jsonl at 8,192, with key query-000977"),
                    moment(0.21, "waits", "for a primary event that is in no log yet"),
                    moment(4.4, "logged", "its primary event: queries/a.jsonl at 7,180"),
                    moment(4.73, "joined", "row in batch 412, plan 9c1f"),
                ],
            },
            {
                "name": "west",
                "moments": [
                    moment(0, "logged", "clicks/a.jsonl at 8,192, with key query-000977"),
                    moment(6.1, "joined elsewhere", "east has its row"),
                ],
            },
            {
                "name": "registry",
                "moments": [
                    moment(4.7, "claimed", "by east:3f2a:412#9c1f, entry 88,120 of ledger 1"),
                    moment(None, "closed", "batch 412 of east is closed, so that the claim holds"),
                ],
            },
        ],
        "problems": [],
    }


@dataclass
class Canned:
    """Answers of the server, which a test changes while the page looks."""

    now: Json = field(default_factory=now)
    history: Json = field(default_factory=history)
    records: Json = field(default_factory=records)
    event: Json = field(default_factory=event)
    asked: list[str] = field(default_factory=list)  # all paths, in order
    url: str = ""

    def show(self, *datacenters: Json, says: str) -> None:
        self.now = now(*datacenters, says=says)


class _Handler(SimpleHTTPRequestHandler):
    def __init__(self, canned: Canned, *args: Any) -> None:
        self.canned = canned
        super().__init__(*args, directory=str(STATIC))

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        self.canned.asked.append(self.path)
        if not path.startswith("/api/"):
            super().do_GET()
            return
        body = json.dumps(getattr(self.canned, path.removeprefix("/api/"))).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(canned: Canned, port: int = 0) -> Iterator[Canned]:
    """Serve the page with these answers."""
    with ThreadingHTTPServer(("127.0.0.1", port), partial(_Handler, canned)) as server:
        canned.url = f"http://127.0.0.1:{server.server_port}/"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield canned
        finally:
            server.shutdown()
            thread.join()
