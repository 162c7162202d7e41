"""Metrics in a real Prometheus: queries of the dashboard and alerts have numbers, and a death raises one."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pytest

from examples.demo.live_traffic import LiveTraffic
from examples.demo.traffic import Traffic
from photon.pipeline.file import load_pipeline
from photon.process.clock import SystemClock
from photon.verification.availability.budget import Minute
from photon.verification.availability.stored import MINUTES
from photon.verification.report import DatacenterReport, VerificationReport
from photon.verification.stored_reports import append
from tests.e2e.photon_process import kill, line_with, running, wait_for_rows
from tests.e2e.process_marks import soon
from tests.services.prometheus import INFRA, Prometheus, prometheus, rules
from tests.support.programs import needed

pytestmark = [pytest.mark.services, pytest.mark.server, pytest.mark.timeout(600)]

DATACENTERS = {"east", "west"}
BOARD = json.loads((INFRA / "grafana" / "photon.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]
RATE_INTERVAL = "30s"  # Grafana puts in four scrapes or more
PATIENCE_SECONDS = 120.0
SOME_ROWS = 50
OF_ALL = "max(photon_complete_up_to"  # the one query that is of all datacenters together
COMPARISON = re.compile(r"^(?P<number>.+) (?:==|>|<) [\d.]+$", flags=re.DOTALL)


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Prometheus, ExitStack]]:
    """Two datacenters that join live traffic, scraped; `east` is killed when the stack is closed."""
    folder = tmp_path_factory.mktemp("metrics")
    traffic = Traffic(3, tuple(DATACENTERS), 100, 40, duration_seconds=600, late_seconds=1)
    file = traffic.write_pipeline(folder)
    is_over = threading.Event()
    writer = threading.Thread(target=LiveTraffic(traffic, folder).run, args=(is_over.is_set,))
    with ExitStack() as stack, ExitStack() as east_lives:
        needed("prometheus")
        writer.start()
        stack.callback(writer.join)
        stack.callback(is_over.set)
        assert soon(lambda: all(place.logs.exists() for place in load_pipeline(file).datacenters.values()))
        for name in sorted(DATACENTERS):
            process = stack.enter_context(running("join", file, "--engine", "local", "-d", name))
            wait_for_rows(file, name, 1)
            if name == "east":
                east_lives.callback(kill, process)
        store_judgements(file)
        serving = stack.enter_context(running("metrics", file, "--serve", "0"))
        at = re.search(r"127\.0\.0\.1:(\d+)", line_with("metrics at", serving))
        assert at is not None
        server = stack.enter_context(prometheus(folder / "prometheus", int(at[1])))
        for name in DATACENTERS:
            wait_for_rows(file, name, SOME_ROWS)
        assert soon(lambda: has_rates(server), PATIENCE_SECONDS)
        yield server, east_lives


def store_judgements(file: Path) -> None:
    """Store judgements as a verification does: no test waits until a minute is over and can be judged."""
    pipeline, now_us = load_pipeline(file), SystemClock().now_us()
    sound = DatacenterReport(classes={"joined": 1}, rows=1)
    append(pipeline, VerificationReport(dict.fromkeys(DATACENTERS, sound), rows=2), now_us, "a test", 1.0)
    minute = {**asdict(Minute(now_us, joinable=1, readable=1)), "minute": now_us, "at": now_us}
    for name in DATACENTERS:
        MINUTES.append(pipeline, name, [minute])


def has_rates(server: Prometheus) -> bool:
    """Say whether each datacenter was scraped more than once since its rows are counted."""
    found = server.query(f"rate(photon_join_latency_seconds_count[{RATE_INTERVAL}]) > 0")
    return {one.labels["datacenter"] for one in found} == DATACENTERS


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_dashboard_has_numbers_of_every_datacenter(
    scraped: tuple[Prometheus, ExitStack], query: str
) -> None:
    server, _ = scraped
    answer = server.query(query.replace("$__rate_interval", RATE_INTERVAL))
    # A call that a busy machine made once in the interval has no rate: a gap in its curve.
    found = [one for one in answer if not math.isnan(one.value)]
    assert {one.labels.get("datacenter") for one in found} == ({None} if OF_ALL in query else DATACENTERS)
    assert all(math.isfinite(one.value) and one.value >= 0 for one in found), found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_an_alert_compares_a_number_that_each_datacenter_has(
    scraped: tuple[Prometheus, ExitStack], rule: dict[str, str]
) -> None:
    server, _ = scraped
    compared = COMPARISON.match(rule["expr"])
    assert compared is not None
    found = server.query(compared["number"])
    assert all(math.isfinite(one.value) for one in found), found
    if "job=" not in rule["expr"]:  # a rule on job= compares the scraped process, which has one number
        assert {one.labels["datacenter"] for one in found} == DATACENTERS
    else:
        assert [one.value for one in found] == [1]


def test_a_datacenter_that_is_killed_raises_an_alert_and_the_other_one_none(
    scraped: tuple[Prometheus, ExitStack],
) -> None:
    server, east_lives = scraped
    assert server.firing() == set()
    before = server.query('photon_foreign_records_total{datacenter="east", outcome="joined"}')
    east_lives.close()
    assert soon(lambda: ("PhotonDown", "east") in server.firing(), PATIENCE_SECONDS)
    assert {datacenter for _, datacenter in server.firing()} == {"east"}  # it needs somebody, too
    (joined,) = server.query('photon_foreign_records_total{datacenter="east", outcome="joined"}')
    assert joined.value >= before[0].value
    (age,) = server.query('time() - photon_measured_timestamp_seconds{datacenter="east"}')
    assert age.value > 0
