"""Copies of the logs compared with Spark: one that is cut short is found, named, and clean once mended."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from photon.verification.log_copies.comparing import ComparedCopies
from photon.verification.report import DatacenterReport, Finding, VerificationReport
from tests.simulation.world import NOON_US, World

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

MINUTE_US = 60_000_000
HOUR = 3_600.0
CLICKS, CUT = 40, 30  # west's copy of the last file lacks all lines from CUT on


class Copies:
    """Two datacenters with the same events in other files and in another order; west's copy is cut short."""

    def __init__(self, folder: Path, session: Any) -> None:
        self.session = session
        self.world = World(folder, ("east", "west"))
        for number in range(CLICKS):
            self.log("east", number, "a.jsonl")
        # West has some in the other order and one line twice: the set of events is the same.
        for number in reversed(range(20)):
            self.log("west", number, "first.jsonl")
        self.log("west", 3, "first.jsonl")
        for number in range(20, CUT):
            self.log("west", number, "a.jsonl")
        self.join()

    def log(self, datacenter: str, number: int, file: str) -> None:
        at_us = NOON_US + number * MINUTE_US
        self.world.queries(f"q{number}", datacenter=datacenter, at_us=at_us, file=file)
        self.world.clicks((f"c{number}", f"q{number}"), datacenter=datacenter, at_us=at_us, file=file)

    def deliver_the_rest(self) -> None:
        for number in range(CUT, CLICKS):
            self.log("west", number, "a.jsonl")
        self.join()

    def join(self) -> None:
        for name in ("east", "west"):
            self.world.join(name)

    def compare(self) -> ComparedCopies:
        from photon.jobs.log_copies import compare

        pipeline, now_us = self.world.pipeline, self.world.clock.now_us()
        return compare(pipeline, ["east", "west"], now_us, keep=True, session=self.session)


def findings(found: ComparedCopies) -> dict[str, tuple[Finding, ...]]:
    report = VerificationReport({"east": DatacenterReport(), "west": DatacenterReport()}, 0)
    added = found.added_to(report, 10)
    assert added.ok, "a copy that is short breaks no promise of Photon's"
    return {name: tuple(one.findings) for name, one in added.datacenters.items()}


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory, session: Any) -> Copies:
    return Copies(tmp_path_factory.mktemp("copies"), session)


@pytest.fixture(scope="module")
def short(copies: Copies) -> ComparedCopies:
    copies.world.clock.advance(2.4 * HOUR)  # no event of that hour may come any more
    return copies.compare()


@pytest.fixture(scope="module")
def delivered(copies: Copies, short: object) -> ComparedCopies:
    copies.deliver_the_rest()
    return copies.compare()


def test_a_copy_that_is_cut_short_is_told_once_to_the_datacenter_that_has_to_act(
    short: ComparedCopies,
) -> None:
    found = findings(short)
    assert found["east"] == ()
    (finding,) = found["west"]
    assert finding.kind == "log_copy_short"
    assert finding.count == 2  # files: of queries and of clicks
    assert (finding.number(), finding.acting) == ("2", {"west": 2})
    assert "copy the named bytes" in finding.meaning.remedy


def test_it_names_the_file_and_the_bytes_from_where_on_the_copy_lacks(
    copies: Copies, short: ComparedCopies
) -> None:
    (finding,) = findings(short)["west"]
    of_clicks, of_queries = sorted(finding.examples, key=lambda example: example.where)
    logs = copies.world.folder / "logs"
    whole = (logs / "east/clicks/a.jsonl").read_bytes()
    first = whole.index(f'{{"click": "c{CUT}"'.encode())
    last = whole.index(f'{{"click": "c{CLICKS - 1}"'.encode())
    assert of_clicks.where == f"foreign log clicks/a.jsonl of east, bytes {first} to {last}"
    assert of_clicks.event_id == f"c{CUT}"
    own_bytes = (logs / "west/clicks/a.jsonl").stat().st_size
    assert f"the copy of west has a file of this name that ends at byte {own_bytes}" in of_clicks.detail
    assert of_clicks.detail.startswith(f"{CLICKS - CUT} events of 2023-11-14 ")
    assert "queries/a.jsonl" in of_queries.where


def test_when_the_rest_is_delivered_nothing_is_lacking(copies: Copies, delivered: ComparedCopies) -> None:
    assert delivered.hours > 0  # a line that one copy has twice still makes the digests differ
    assert findings(delivered) == {"east": (), "west": ()}
    assert len(copies.world.joined_ids()) == CLICKS
