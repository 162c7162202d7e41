"""Dead letters are mended and looked at again in their places (protocol E4, docs/adr/0047)."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import pytest

from photon.dispatcher.recovery.orders import waiting_orders
from photon.process.errors import UserError
from photon.process.faults import ORDER_FAULT_POINTS
from photon.state.waiting.segments import RECORDS
from photon.storage.delta import LakeUnavailable
from photon.storage.mended_letters import mended_letters
from photon.upkeep.dead_letters.mending import exported, lines_of, plan_mending, read_edits
from photon.upkeep.dead_letters.open_letters import open_letters
from photon.upkeep.dead_letters.trial_join import NO_PRIMARY, SKIPPED, try_joins
from tests.simulation import failing_adapter
from tests.simulation import mending_stories as stories
from tests.simulation.mending_stories import BAD, assert_agreed, click, mend, world_with_a_bad_line
from tests.simulation.rebuilding import rebuild
from tests.simulation.recovery_stories import a_row_is_removed
from tests.simulation.verifying import recover_all, verify
from tests.simulation.world import World, assert_counts
from tests.support.crashes import at, failing

ADAPTER = f"adapter: {failing_adapter.NAME}:join"
ECHO = f"adapter: {failing_adapter.NAME}:echo"
Patch = pytest.MonkeyPatch


def test_a_mended_line_is_joined_in_its_place(world: World) -> None:
    stories.a_mended_line_is_joined_in_its_place(world)


@pytest.mark.parametrize("point", [*ORDER_FAULT_POINTS[2:], "task.after_candidates", "commit.after_main"])
def test_a_dispatcher_that_dies_joins_a_mended_line_once(world: World, point: str) -> None:
    stories.a_mended_line_is_joined_in_its_place(world, (point,))


@pytest.mark.parametrize("damaged", [False, True])
def test_a_mended_record_waits_with_its_own_line(world: World, damaged: bool) -> None:
    """The primary comes later; meanwhile the file of waiting records may be damaged."""
    world.log("east", "clicks", BAD + "\n")
    assert world.join().counts.of("dead_letters") == 1
    mend(world)
    assert_counts(world.join().counts, dead_letters=0, pending=1)
    assert_agreed(world)
    if damaged:
        for file in (world.state() / "waiting").glob("*" + RECORDS):
            file.write_bytes(b"damaged")
    world.queries("q1")
    counts = world.join().counts
    assert_counts(counts, "a mended record is lost", joined=1, lost=0)
    assert world.rows()[0]["position"] == "7"
    assert_agreed(world)


def test_a_row_of_a_mended_record_is_made_again(world: World) -> None:
    stories.world_with_a_bad_line(world)
    stories.mend(world)
    before = world.join().counts.as_dict()
    a_row_is_removed(world)
    assert verify(world)["east"].violations
    recover_all(world)
    assert world.join().counts.as_dict() == before
    assert world.joined_ids() == ["c0", "c1"], "the row of a mended record does not come back"
    stories.assert_agreed(world)


def test_one_letter_counts_of_a_record_that_fails_twice(tmp_path: Path, monkeypatch: Patch) -> None:
    fails: list[str] = []
    monkeypatch.setattr(failing_adapter, "fails_on", fails)
    stories.one_letter_counts_of_a_record_that_fails_twice(World(tmp_path, more=ADAPTER), fails)


def test_a_rebuild_makes_the_row_of_the_mended_line(tmp_path: Path) -> None:
    """A record of the same id is mended, and so the log's line would make another row."""
    world = World(tmp_path, more=ECHO)
    world.events("c1")
    with mock.patch.object(failing_adapter, "fails_on", ["c1"]):
        world.join()
    plan_mending(world.pipeline, "east", lambda line, reason: line.replace(b"}", b', "position": 7}')).apply()
    world.join()
    before = world.rows()
    assert [row["position"] for row in before] == ["7"]
    assert rebuild(world).tally.same == 1, "the row was made again of the line of the log"
    assert world.rows() == before
    assert_agreed(world)


def test_each_mended_letter_is_counted_as_what_becomes_of_it(tmp_path: Path, monkeypatch: Patch) -> None:
    ends = {
        "duplicates": click("c0", "q1"),
        "skipped": click("c1", None),
        "unjoinable": click("c2", "never"),
        "joined_elsewhere": click("c9", "q1"),
        "filtered": click("dropped", "q1"),
    }
    world = World(tmp_path, ["east", "west"], more=ADAPTER)
    monkeypatch.setattr(failing_adapter, "drops", ["dropped"])
    world.events("c9", datacenter="west")
    world.join("west", "complete")
    world.events("c0")
    world.log("east", "clicks", *(f"{end}\n" for end in ends))
    assert_counts(world.join().counts, joined=1, dead_letters=len(ends))
    plan_mending(world.pipeline, "east", lambda line, _: ends[line.decode().strip()]).apply()
    counts = world.join("east", "complete").counts
    assert_counts(counts, **dict.fromkeys(ends, 1), joined=1, dead_letters=0, foreign=6)
    assert_agreed(world)


def test_a_letter_that_is_looked_at_again_and_dropped_is_filtered(tmp_path: Path, monkeypatch: Patch) -> None:
    fails: list[str] = []
    monkeypatch.setattr(failing_adapter, "fails_on", fails)
    monkeypatch.setattr(failing_adapter, "drops", ["c1"])
    world = World(tmp_path, more=ADAPTER)
    stories.a_letter_that_is_looked_at_again_and_dropped_is_filtered(world, fails)


def test_the_log_keeps_its_line_and_the_lake_has_the_mended_one(world: World) -> None:
    stories.a_mended_line_is_joined_in_its_place(world)
    assert BAD in (world.folder / "logs/east/clicks/a.jsonl").read_text()
    with world.state_of("east") as state:
        ((place, letter),) = mended_letters(world.pipeline, "east", state.epoch or "").items()
    assert str(place) == world.rows("dead_letters")[0]["_occurrence"]
    assert json.loads(letter.raw or b"")["position"] == 7
    assert letter.event_id == "c1"


def test_a_line_that_is_still_no_record_is_not_ordered(world: World) -> None:
    world_with_a_bad_line(world)
    done = plan_mending(world.pipeline, "east", lambda line, reason: b"{}").apply()
    assert (done.ordered.ordered, waiting_orders(world.state())) == (0, [])
    assert list(done.problems) == ["still no record: no value for id column 'click'"]


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda line, reason: line["x"], "the function failed on it: TypeError"),
        (lambda line, reason: 7, "the function returned int; expected bytes, str or None"),
        (lambda line, reason: "{}\n{}", "still no record: it is blank, or more than one line"),
    ],
)
def test_what_a_function_can_not_mend_is_told(world: World, function: object, problem: str) -> None:
    world_with_a_bad_line(world)
    done = plan_mending(world.pipeline, "east", function).apply()  # type: ignore[arg-type]
    assert done.ordered.ordered == 0
    assert [why.startswith(problem) for why in done.problems] == [True], done.problems


def test_a_dry_run_says_what_a_mended_line_is_and_what_would_come_of_it(world: World) -> None:
    world_with_a_bad_line(world)
    done = mend(world, dry_run=True)
    (line,) = done.lines
    assert (line.event_id, line.key, line.time_us) == ("c1", "q1", 1_700_000_000_000_000)
    assert waiting_orders(world.state()) == []
    said = "it joins the primary event at queries/a.jsonl, offset 0"
    assert try_joins(world.pipeline, "east", done.events) == [said]


def test_a_dry_run_tells_each_end(tmp_path: Path, monkeypatch: Patch) -> None:
    ends = {
        click("c1", "never"): NO_PRIMARY,
        click("c1", None): SKIPPED,
        click("dropped", "q1"): "the adapter drops it",
        click("fails", "q1"): "it would be a dead letter: adapter: KeyError: 'position'",
    }
    monkeypatch.setattr(failing_adapter, "drops", ["dropped"])
    monkeypatch.setattr(failing_adapter, "fails_on", ["fails"])
    world, lines = World(tmp_path, more=ADAPTER), iter(ends)
    world.events("c0")
    world.log("east", "clicks", *(f"bad {number}\n" for number in range(len(ends))))
    world.join()
    done = plan_mending(world.pipeline, "east", lambda *_: next(lines)).expected
    assert try_joins(world.pipeline, "east", done.events) == [*ends.values()]


def test_letters_are_exported_edited_by_hand_and_given_back(world: World, tmp_path: Path) -> None:
    world_with_a_bad_line(world)
    with (world.folder / "logs/east/clicks/a.jsonl").open("ab") as log:
        log.write(b"no record \xff\n")
    world.join()
    found = open_letters(world.pipeline, "east")
    lines = list(exported("east", lines_of(world.pipeline, "east", found, found.first(10, with_raw=True))))
    assert [json.loads(line)["line"] for line in lines] == [BAD, "no record \udcff"]
    file = tmp_path / "mended.jsonl"
    file.write_text("\n".join(lines).replace('7 \\"at', '7, \\"at'))
    done = plan_mending(world.pipeline, "east", read_edits(file, "east")).apply()
    assert (done.ordered.ordered, done.left) == (1, 1)
    assert_counts(world.join().counts, joined=2, dead_letters=1)
    assert read_edits(file, "west").of == {}


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mended.jsonl"
    file.write_bytes(b"\xff\xfe{")
    with pytest.raises(UserError, match=r"mended\.jsonl: expected JSON lines in UTF-8"):
        read_edits(file, "east")


@pytest.mark.parametrize("text", ["{", '{"file": "a", "offset": 1}', '{"file": "a", "offset": 1, "line": 7}'])
def test_a_file_that_can_not_be_read_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mended.jsonl"
    file.write_text(f"\n{text}\n")
    with pytest.raises(UserError, match="line 2: expected a JSON object"):
        read_edits(file, "east")


def test_a_lake_that_can_not_be_written_leaves_the_order_for_the_next_start(world: World) -> None:
    world_with_a_bad_line(world)
    mend(world)
    with at("order.after_mended", failing(LakeUnavailable("the lake is full"))):
        assert world.join().counts.of("dead_letters") == 1
    assert len(waiting_orders(world.state())) == 1
    assert world.join().counts.of("joined") == 2
    assert_agreed(world)
