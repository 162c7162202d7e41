"""`photon ui` beside real joins: it sees a kill, a hold and a lake that is away, and disturbs nobody."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.one_query import log_clicks, one_query
from tests.e2e.photon_process import PATIENCE_SECONDS, kill, line_with, photon, running, stop, wait_for_rows

pytestmark = [pytest.mark.server, pytest.mark.slow]

JOIN = ("--engine", "local")
Ask = Callable[[str], Any]


@contextmanager
def page(pipeline: Path) -> Iterator[Ask]:
    """A page at a free port, asked by path; it ends by Ctrl-C with its own status."""
    with running("ui", pipeline, "--port", "0") as process:
        said = line_with("the page of", process)
        (url,) = re.findall(r"(http://127\.0\.0\.1:\d+)/, until Ctrl-C", said)

        def ask(path: str) -> Any:
            with urllib.request.urlopen(url + path, timeout=PATIENCE_SECONDS) as answer:
                return json.loads(answer.read())

        yield ask
        assert stop(process, signal.SIGINT) == 130


def datacenter(ask: Ask, name: str) -> dict[str, Any]:
    (found,) = (one for one in ask("/api/now")["datacenters"] if one["name"] == name)
    assert isinstance(found, dict)
    return found


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"not seen: {what}"
        time.sleep(0.5)  # other processes are at work: there is no clock to inject


def test_a_kill_a_hold_and_their_marks_are_seen(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, "c1", "c2")
    with page(pipeline) as ask:
        assert datacenter(ask, "east")["activity"] == "new"
        with running("join", pipeline, "-d", "east", *JOIN) as join:
            wait_for_rows(pipeline, "east", 2)
            until(lambda: datacenter(ask, "east")["activity"] == "live", "a live datacenter")
            until(lambda: datacenter(ask, "east")["numbers"]["waiting"] == 0, "its first point")
            kill(join)
        log_clicks(pipeline, "c3")
        until(lambda: datacenter(ask, "east")["activity"] == "not running", "the kill")
        (works,) = (one for one in datacenter(ask, "east")["verdicts"] if one["promise"] == "works")
        assert works["level"] != "ok", works
        assert f"photon join {pipeline} -d east" in works["says"], works
        photon("join", pipeline, "-d", "east", "--until-idle", *JOIN)
        photon("hold", pipeline, "east")
        until(lambda: datacenter(ask, "east")["activity"] == "on hold", "the hold")
        assert f"photon resume {pipeline} east" in datacenter(ask, "east")["says"]
        until(lambda: {"killed", "hold"} <= {m["kind"] for m in ask("/api/history")["marks"]}, "the marks")
        states = [span["state"] for span in ask("/api/history")["strips"]["east"]]
        assert states[0] == "unknown"
        assert "live" in states
        assert "dead" in states
        assert states[-1] == "on hold"


def test_a_lake_that_is_away_keeps_nothing_else_from_being_shown(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, "c1", datacenters=("east", "west"))
    photon("join", pipeline, "--until-idle", *JOIN)
    lake = tmp_path / "lake" / "east"
    lake.rename(tmp_path / "away")
    with page(pipeline) as ask:
        assert datacenter(ask, "west")["is_well"]
        assert not datacenter(ask, "east")["is_well"]
        history = ask("/api/history")["datacenters"]
        assert any(history["west"]["activity"])
        assert any(history["east"]["activity"]), "points of its state are there"
        assert ask("/api/records")["classes"]["west"]["foreign"] == 1
        story = ask("/api/event?id=c1")
        assert {lane["name"] for lane in story["lanes"]} == {"east", "west", "registry"}


def test_what_hangs_is_named_and_the_others_are_shown(tmp_path: Path) -> None:
    """A named pipe keeps its reader waiting, as a dead mount does."""
    pipeline = one_query(tmp_path, "c1", datacenters=("east", "west"))
    photon("join", pipeline, "--until-idle", *JOIN)
    points = tmp_path / "state" / "east" / "points.jsonl"
    points.unlink(missing_ok=True)
    os.mkfifo(points)
    with page(pipeline) as ask:
        assert datacenter(ask, "west")["is_well"]
        found = ask("/api/history")["datacenters"]
        assert "the state of east: no answer within" in found["east"]["problem"]
        assert found["west"]["problem"] == ""


def test_a_page_makes_nothing(tmp_path: Path) -> None:
    pipeline = one_query(tmp_path, "c1")
    before = sorted(tmp_path.rglob("*"))
    with page(pipeline) as ask:
        for path in ("/api/now", "/api/history", "/api/records", "/api/event?id=c1"):
            ask(path)
    assert sorted(tmp_path.rglob("*")) == before
