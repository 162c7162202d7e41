"""The measurement of deliveries: its backlog comes as the tables have it, and a faulty row is noticed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from bench.feed_measurement import WAYS, Deliveries, write_backlog
from bench.live_measurement import MeasurementFailed
from infra.servers.process import free_steady_port, start_process
from photon.pipeline.file import Pipeline
from tests.services.postgres import postgres

pytestmark = pytest.mark.services
ROWS, RELEASES = 600, 3


@pytest.fixture(scope="module")
def backlog(tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    return write_backlog(tmp_path_factory.mktemp("backlog"), ROWS, RELEASES)


@pytest.fixture(scope="module")
def deliveries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deliveries]:
    folder = tmp_path_factory.mktemp("deliveries")
    with postgres(free_steady_port()) as server, start_process(["true"], folder / "log") as no_spark:
        server.database("fed")
        yield Deliveries(folder, server.url("fed"), no_spark)


@pytest.mark.parametrize("way", WAYS)
def test_all_rows_of_the_backlog_are_delivered(way: str, deliveries: Deliveries, backlog: Pipeline) -> None:
    deliver(deliveries, backlog, way)
    releases = RELEASES if way == "releases" else 1
    assert deliveries.ask(f"SELECT count(*), count(DISTINCT _release) FROM {way}_photon") == [
        (ROWS, releases)
    ]
    deliveries.check(backlog, way)


@pytest.mark.parametrize(
    "fault",
    [
        "DELETE FROM {}_photon WHERE _batch = 2",
        "DELETE FROM {}_spark WHERE _batch = 2",
        "UPDATE {}_spark SET position = position + 1 WHERE _batch = 1",
        "INSERT INTO {0}_spark SELECT * FROM {0}_spark LIMIT 1",
    ],
)
def test_rows_that_are_not_those_of_the_tables_end_the_measurement(
    fault: str, deliveries: Deliveries, backlog: Pipeline
) -> None:
    deliver(deliveries, backlog, "faulty")
    deliveries.ask(fault.format("faulty"))
    with pytest.raises(MeasurementFailed, match="faulty: the lakes have 600 rows"):
        deliveries.check(backlog, "faulty")
    deliveries.ask("DROP TABLE faulty_photon, faulty_spark; TRUNCATE photon_cursors")


def deliver(deliveries: Deliveries, backlog: Pipeline, what: str) -> None:
    """Deliver by Photon; the rows that Spark would deliver are the same."""
    more, _ = WAYS.get(what, WAYS["snapshot"])
    subprocess.run(deliveries.follow(backlog, what, *more, "--once"), check=True)
    deliveries.ask(
        f"CREATE TABLE {what}_spark AS TABLE {what}_photon; ALTER TABLE {what}_spark DROP COLUMN _release"
    )
