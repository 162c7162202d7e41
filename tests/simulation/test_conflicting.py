"""Records of one id that say different things: counted, with examples, told, and judged."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from photon.dispatcher import conflicts
from photon.health.facts import look
from photon.health.headline import sentences
from photon.health.memory import Memory
from photon.health.status import status_of
from photon.join import comparing
from photon.join.adapting import RawRecords
from photon.join.comparing import Compared, compared
from photon.process.faults import FAULT_POINTS
from photon.state.outcomes import Counts
from photon.storage.tokens import Occurrence
from photon.verification.scope import open_scope
from tests.simulation.reading import asking
from tests.simulation.recovery_stories import FAULTS, Plant
from tests.simulation.test_random_records import NAMES, SOON
from tests.simulation.verifying import recover_all
from tests.simulation.world import NOON_US, World, assert_counts
from tests.support.shares import a_share
from tests.support.verdicts import found_in


def click(name: str, query: str = "q1", **more: object) -> dict[str, object]:
    return {"click": name, "query": query, "at": NOON_US, **more}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.queries("q1", "q2")
    return made


def of_duplicates(counts: Counts) -> tuple[int, int, int]:
    """Count duplicates: all, conflicting ones, and ones that were not compared."""
    return counts.of("duplicates"), counts.conflicting, counts.not_compared


# -- what is another content


# Records of ID, and what of each differs from its first record.
COMPARED = [
    ('{"click": "ID", "query": "q1", "at": 1700000000000000, "n": 1}\n', ""),
    ('{"n":1,"at":1700000000000000,"query":"q1","click":"ID"}\n', ""),
    ('{"click": "ID", "query": "q1", "at": 1700000000000000, "n": 1, "more": null}\n', ""),
    ('{"click": "ID", "query": "q1", "at": 1700000000000000, "n": 2}\n', "n"),
    ('{"click": "ID", "query": "q2", "at": 1700000000000001, "n": 1}\n', "at, query"),
    ('{"click": "ID", "query": "q1", "at": 1700000000000000}\n', "n"),
    ('{"click": "ID", "query": "q1", "at": 1700000000000000, "n": 1, "more": ""}\n', "more"),
]


@pytest.mark.parametrize("is_later_batch", [False, True])
def test_records_are_compared_by_their_columns_in_one_batch_and_later(
    world: World, is_later_batch: bool
) -> None:
    again = {f"c{number}": each for number, each in enumerate(COMPARED)}
    world.log("east", "clicks", *(click(name, n=1) for name in again))
    if is_later_batch:
        world.join()
    world.log(
        "east", "clicks", *(line.replace("ID", name) for name, (line, _) in again.items()), file="b.jsonl"
    )
    counts = world.join().counts
    expected = {name: differs for name, (_, differs) in again.items() if differs}
    assert of_duplicates(counts) == (len(again), len(expected), 0)
    assert {row["event_id"]: row["differs"] for row in world.rows("conflicting")} == expected


def test_columns_are_compared_by_their_names_in_headers_of_another_order(tmp_path: Path) -> None:
    world = World(tmp_path, format_="csv")
    world.queries("q1")
    clicks = world.folder / "logs" / "east" / "clicks"
    at = NOON_US
    (clicks / "a.csv").write_text(f"click,query,at,x,y\nc1,q1,{at},1,2\nc2,q1,{at},1,2\n")
    (clicks / "b.csv").write_text(f"click,query,at,y,x\nc1,q1,{at},2,1\nc2,q1,{at},1,2\n")
    counts = world.join().counts
    assert of_duplicates(counts) == (2, 1, 0)
    (row,) = world.rows("conflicting")
    assert (row["event_id"], row["differs"]) == ("c2", "x, y")


def test_a_declared_number_is_compared_as_a_number(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.queries("q1")
    columns = world.pipeline.foreign.model_copy(update={"columns": {"n": "float64"}})
    world.pipeline = world.pipeline.model_copy(update={"foreign": columns})
    world.log("east", "clicks", click("c1", n=1, m=1), click("c1", n=1.0, m=1), click("c1", n=1, m=1.5))
    assert of_duplicates(world.join().counts) == (2, 1, 0)
    assert [row["differs"] for row in world.rows("conflicting")] == ["m"]


# -- what is counted and kept


def test_an_example_names_both_places(world: World) -> None:
    world.log("east", "clicks", click("c1", n=1))
    world.join()
    world.log("east", "clicks", click("c2"), click("c1", n=2), file="b.jsonl")
    world.join()
    (row,) = world.rows("conflicting")
    before = len('{"click": "c2", "query": "q1", "at": 1700000000000000}\n')
    assert (row["event_id"], row["path"], row["offset_bytes"]) == ("c1", "clicks/b.jsonl", before)
    assert (row["joined_path"], row["joined_offset_bytes"]) == ("clicks/a.jsonl", 0)


def test_a_record_without_a_primary_is_conflicting_too(world: World) -> None:
    world.clicks(("c1", "nope"), ("c1", "q1"), ("c1", "q1"))
    assert of_duplicates(world.join(mode="complete").counts) == (2, 1, 0)


def test_one_that_waited_is_compared_once_it_is_a_duplicate(world: World) -> None:
    world.clicks(("c1", "nope"))
    assert of_duplicates(world.join().counts) == (0, 0, 0)
    world.clicks(("c1", "q1"))
    world.join()
    world.clock.advance(3_600)
    assert of_duplicates(world.join().counts) == (1, 1, 0)


def test_what_can_not_be_read_any_more_is_not_called_alike_or_conflicting(world: World) -> None:
    world.log("east", "clicks", click("c1", n=1))
    world.join()
    (world.folder / "logs" / "east" / "clicks" / "a.jsonl").unlink()
    world.log("east", "clicks", click("c1", n=2), file="b.jsonl")
    assert of_duplicates(world.join().counts) == (1, 0, 1)


def test_what_an_earlier_epoch_joined_is_not_called_alike_or_conflicting(world: World) -> None:
    world.log("east", "clicks", click("c1", n=1), click("c1", n=2))
    assert of_duplicates(world.join().counts) == (1, 1, 0)
    shutil.rmtree(world.state())
    assert of_duplicates(world.join().counts) == (1, 0, 1)


def test_the_datacenter_that_has_the_row_counts_it(tmp_path: Path) -> None:
    world = World(tmp_path, NAMES, SOON)
    for name in NAMES:
        world.queries("q1", datacenter=name)
        world.log(name, "clicks", *(click(f"c{n}", n=n) for n in range(20)))
        world.log(name, "clicks", *(click(f"c{n}", n=-n - 1) for n in range(20)))
    found = 0
    for _ in range(3):
        for name in NAMES:
            world.join(name)
        world.clock.advance(60)
    for name in NAMES:
        with world.state_of(name) as state:
            counts = state.counts()
        assert counts.conflicting == counts.of("duplicates") == counts.of("joined")
        found += counts.conflicting
    assert found == 20


@pytest.mark.parametrize("point", a_share(FAULT_POINTS, 0, of=6))
def test_a_crash_counts_and_keeps_each_once(world: World, point: str) -> None:
    world.log("east", "clicks", click("c1", n=1), click("c1", n=2), click("c2"))
    world.join()
    world.queries("q3")
    world.log("east", "clicks", click("c2", n=3), click("c3"), click("c3", n=4), click("late", "no"))
    world.log("east", "queries", "no query\n")
    world.join_with_a_crash(point)
    counts = world.join().counts
    assert of_duplicates(counts) == (3, 3, 0)
    assert sorted(row["event_id"] for row in world.rows("conflicting")) == ["c1", "c2", "c3"]


# -- limits


def test_of_more_duplicates_than_are_compared_the_share_counts_for_all(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "MOST_COMPARED", 60)
    monkeypatch.setattr(conflicts, "MOST_COMPARED", 60)
    world.log("east", "clicks", click("c1"), *(click("c1", n=n % 2 or None) for n in range(100)))
    of_batch = world.join().counts.conflicting
    assert 30 <= of_batch <= 70
    world.log("east", "clicks", *(click("c1", n=1) for _ in range(80)))
    counts = world.join().counts
    assert of_duplicates(counts) == (180, of_batch + 80, 0)
    assert len(world.rows("conflicting")) <= 2 * comparing.MOST_KEPT


def test_the_table_has_the_first_examples_of_an_epoch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conflicts, "MOST_SAMPLES", 5)
    for batch in range(4):
        world.log("east", "clicks", *(click("c1", n=(batch, n)) for n in range(4)))
        counts = world.join().counts
    assert counts.conflicting == 15
    assert len(world.rows("conflicting")) == 5


def test_a_record_that_can_not_be_parsed_alone_is_not_compared(world: World) -> None:
    raws = [b'{"click": "c1", "n": 1}', b'{"click": "c1", ']
    some = RawRecords(pa.array(raws, pa.binary()), [b""], np.zeros(2, np.int64))
    places = [Occurrence(1, 0)], [Occurrence(1, 50)]
    assert compared(some, ["c1"], *places, world.pipeline) == Compared(not_compared=1)


# -- who tells it


def test_status_verification_and_the_check_tell_it(world: World) -> None:
    world.log("east", "clicks", *(click(f"c{n}") for n in range(90)), *(click("c0", n=n) for n in range(10)))
    assert_counts(world.join().counts, joined=90, conflicting=10)
    one = status_of(world.pipeline, "east", world.clock)
    assert any("10 duplicates say something else" in said for said in sentences(one))
    found = look(world.pipeline, "east", world.clock.now_us())
    verdict = found_in(found, Memory.of_one_look(found), world.pipeline)["conflicting"]
    assert verdict.level == "error"
    assert "10 of all 100 foreign records have the id of another one, and other content" in verdict.text
    assert str(world.pipeline.datacenters["east"].lake / "conflicting") in verdict.text


def test_verification_tells_it_with_examples_and_breaks_no_promise(world: World) -> None:
    world.log("east", "clicks", click("c1"), click("c1", n=2))
    world.join()
    with asking(world):
        (finding,) = open_scope(world.pipeline, ["east"]).findings("east")
    assert (finding.kind, finding.count, finding.meaning.violation) == ("conflicting", 1, False)
    (example,) = finding.examples
    assert example.where == "byte 55 of clicks/a.jsonl"
    assert example.detail == "joined: byte 0 of clicks/a.jsonl; differs in n"


@pytest.mark.parametrize("plant", FAULTS.values(), ids=FAULTS)
def test_what_recovery_has_looked_at_again_is_counted_once(world: World, plant: Plant) -> None:
    world.log("east", "clicks", click("c1"), click("c1", n=2))
    world.join()
    world.log("east", "clicks", click("c1", n=3))
    before = world.join().counts
    plant(world)
    recover_all(world)
    assert world.join().counts.as_dict() == before.as_dict()
    assert of_duplicates(before) == (2, 2, 0)
