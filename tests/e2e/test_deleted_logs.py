"""Foreign logs that are deleted after a while: what verification and `photon registry gc` make of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from photon.process.clock import MICROSECONDS, SystemClock
from photon.registry.opening import close_registries
from photon.state.view import read_offsets
from photon.verification.report import DatacenterReport, VerificationReport, VerifiedEarlier
from photon.verification.stored_reports import append
from tests.e2e.gc_world import World, photon, told
from tests.support.local_servers import local_server

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]

HEADER = "click,query,at\n"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with local_server(tmp_path_factory.mktemp("dynamodb")) as started:
        yield started


@dataclass(frozen=True)
class Seen:
    """A verification that was stored, and the gc after it."""

    report: DatacenterReport
    gc: dict[str, Any]

    @property
    def earlier(self) -> VerifiedEarlier:
        return self.report.verified_earlier


class Rotated(World):
    """The events of `World` in one log, joined and verified; a young one in another."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder, url)
        self.log = folder / "logs" / "east" / "clicks" / "a.csv"
        self.join()
        self.record_all_as_verified()
        self.event("young", "b")
        self.tail = f"late,young,{self.now_us - 20 * MICROSECONDS}\n"

    def event(self, name: str, file: str) -> None:
        """Join one more event, alone in its file."""
        time_us = self.now_us - 30 * MICROSECONDS
        self.write("queries", "query,at", [f"{name},{time_us}"], f"of-{name}")
        self.write("clicks", HEADER.strip(), [f"{name},{name},{time_us}"], file)
        self.join()

    def record_all_as_verified(self) -> None:
        """Put on record what a verification finds when all that was read is there and sound."""
        read = read_offsets(self.pipeline.datacenters["east"].state)
        east = DatacenterReport(
            verified_until_us=self.now_us,
            epoch=read.epoch,
            newly_verified_offsets={one.file.number: one.offset_bytes for one in read.of("foreign")},
        )
        append(self.pipeline, VerificationReport({"east": east}, 0), SystemClock().now_us(), "a run", 1.0)

    def verify(self) -> DatacenterReport:
        """Verify and put it on record, as `photon verify --record` does."""
        from photon.jobs.verification import verify

        report = verify(self.pipeline, ["east"])
        append(self.pipeline, report, SystemClock().now_us(), "a run", 1.0)
        return report.datacenters["east"]

    def seen(self) -> Seen:
        return Seen(self.verify(), told(photon("registry", "gc", self.file, "--json")))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, url: str) -> Iterator[Rotated]:
    yield Rotated(tmp_path_factory.mktemp("deleted"), url)
    close_registries()


# The fixtures build on one another, in this order: the log goes with a tail that was read after its
# verification; it is put back, verified, and goes again; another log takes its place; the state is lost.


@pytest.fixture(scope="module")
def with_a_tail(world: Rotated) -> Seen:
    with world.log.open("a") as log:
        log.write(world.tail)
    world.join()
    hidden = world.log.rename(world.folder / "a.csv")
    seen = world.seen()
    hidden.rename(world.log)
    return seen


@pytest.fixture(scope="module")
def deleted(world: Rotated, with_a_tail: Seen) -> tuple[int, Seen]:
    """Delete the log; return how many bytes of records went, and what is seen."""
    world.record_all_as_verified()
    read_bytes = world.log.stat().st_size - len(HEADER)
    world.log.unlink()
    return read_bytes, world.seen()


@pytest.fixture(scope="module")
def replaced(world: Rotated, deleted: tuple[int, Seen]) -> Seen:
    world.event("new", "a")
    return world.seen()


@pytest.fixture(scope="module")
def after_a_lost_state(world: Rotated, replaced: Seen) -> Seen:
    shutil.move(world.pipeline.datacenters["east"].state, world.folder / "lost")
    world.join()  # reads all logs that are there again
    world.log.unlink()
    return world.seen()


def test_a_log_that_was_read_further_than_it_was_verified_holds_the_boundary_and_is_named(
    world: Rotated, with_a_tail: Seen
) -> None:
    assert with_a_tail.report.violations == []
    unverified = [(one.path, one.bytes) for one in with_a_tail.report.unverified]
    assert unverified == [("clicks/a.csv", len(world.tail))]
    assert with_a_tail.earlier.files == 0
    assert with_a_tail.gc["boundary"] is None
    named = f"such as clicks/a.csv ({len(world.tail)} bytes; the file is not there)"
    assert named in with_a_tail.gc["because"]


def test_a_log_that_went_after_it_was_verified_does_not_hold_it(deleted: tuple[int, Seen]) -> None:
    read_bytes, seen = deleted
    assert (seen.report.unverified, seen.report.violations) == ((), [])
    assert seen.earlier == VerifiedEarlier(1, read_bytes, "clicks/a.csv")
    assert seen.gc["because"] == "ids are kept for 30 days"
    assert seen.gc["boundary"] is not None


def test_the_equation_has_the_records_that_can_be_read_again(deleted: tuple[int, Seen]) -> None:
    _, seen = deleted
    assert (seen.report.foreign, seen.report.classes) == (1, {"joined": 1})


def test_a_log_in_whose_place_another_one_is_counts_as_one_that_is_gone(
    deleted: tuple[int, Seen], replaced: Seen
) -> None:
    assert (replaced.report.unverified, replaced.report.violations) == ((), [])
    assert replaced.earlier == deleted[1].earlier
    assert replaced.report.classes == {"joined": 2}
    assert replaced.gc["because"] == "ids are kept for 30 days"


def test_what_was_verified_of_another_epoch_counts_for_nothing(
    replaced: Seen, after_a_lost_state: Seen
) -> None:
    assert [one.path for one in after_a_lost_state.report.unverified] == ["clicks/a.csv"]
    assert after_a_lost_state.earlier.files == 0
    assert "such as clicks/a.csv" in after_a_lost_state.gc["because"]
    assert after_a_lost_state.gc["boundary"] == replaced.gc["boundary"]
